// The index beside a long recording: what was written comes back, and nothing else ever does.
#include "session/run_index.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <iterator>

#include "report/json/overview_json.h"
#include "session/recording.h"

namespace gpumemprof {
namespace {

// A copy of a recording with its index, in a folder of its own.
class IndexedRecording : public testing::Test {
 protected:
  void SetUp() override {
    std::string folder = (std::filesystem::temp_directory_path() / "run_index_XXXXXX").string();
    ASSERT_NE(::mkdtemp(folder.data()), nullptr);
    folder_ = folder;
    path_ = (folder_ / "run.gmp").string();
    std::filesystem::copy_file(GPUMEMPROF_TEST_DATA "/traces/cpu_training.gmp", path_);
    const Result<std::shared_ptr<const Recording>> recording = Recording::open(path_);
    ASSERT_TRUE(recording);
    Overview at_peak = recording.value()->overview().value();
    Overview at_end = recording.value()->overview({{AskedMoment::Kind::end, 0}, {}}).value();
    // Only runs that are read in windows have an index, and they get no verdict about leaks.
    for (Overview* overview : {&at_peak, &at_end}) {
      for (DeviceOverview& device : overview->devices) device.leaks.reset();
    }
    const Store& store = recording.value()->store();
    peak_json_ = overview_json(at_peak, store, kAllGroups);
    end_json_ = overview_json(at_end, store, kAllGroups);
    ASSERT_TRUE(write_index(path_, store, at_peak, at_end));
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  [[nodiscard]] std::string index_bytes() const {
    std::ifstream file(index_path(path_), std::ios::binary);
    return {std::istreambuf_iterator<char>(file), {}};
  }
  void write_bytes(const std::string& bytes) const {
    std::ofstream(index_path(path_), std::ios::binary | std::ios::trunc) << bytes;
  }
  [[nodiscard]] IndexState state() const {
    RunIndex index;
    return read_index(path_, index);
  }

  std::filesystem::path folder_;
  std::string path_;
  std::string peak_json_;
  std::string end_json_;
};

TEST_F(IndexedRecording, ReportsTheSameFromTheIndex) {
  RunIndex index;
  ASSERT_EQ(read_index(path_, index), IndexState::good);
  EXPECT_EQ(overview_json(index.at_peak, *index.store, kAllGroups), peak_json_);
  const Overview at_end = overview_at_end(std::move(index.at_peak), std::move(index.at_end));
  EXPECT_EQ(overview_json(at_end, *index.store, kAllGroups), end_json_);
}

TEST_F(IndexedRecording, RefusesAnyFlippedByte) {
  const std::string whole = index_bytes();
  const std::size_t step = whole.size() / 500 + 1;
  for (std::size_t at = 0; at < whole.size(); at += at < 64 ? 1 : step) {
    std::string damaged = whole;
    damaged[at] = static_cast<char>(damaged[at] ^ 0x40);
    write_bytes(damaged);
    ASSERT_EQ(state(), IndexState::stale) << "byte " << at;
  }
}

TEST_F(IndexedRecording, RefusesAnyPrefix) {
  const std::string whole = index_bytes();
  const std::size_t step = whole.size() / 100 + 1;
  for (std::size_t size = 0; size < whole.size(); size += step) {
    write_bytes(whole.substr(0, size));
    ASSERT_EQ(state(), IndexState::stale) << size << " bytes";
  }
  write_bytes(whole + "x");
  EXPECT_EQ(state(), IndexState::stale);
}

TEST_F(IndexedRecording, BelongsToOneRecording) {
  ASSERT_EQ(state(), IndexState::good);
  std::ofstream(path_, std::ios::binary | std::ios::app) << "more";
  EXPECT_EQ(state(), IndexState::stale);
  std::filesystem::remove(index_path(path_));
  EXPECT_EQ(state(), IndexState::missing);
}

}  // namespace
}  // namespace gpumemprof
