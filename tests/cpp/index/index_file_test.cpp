// An index that does not belong to the recording, or is damaged, is not used.
#include "index/index_file.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "index/indexed_run.h"

namespace gpumemprof {
namespace {

using FileBytes = std::vector<char>;

FileBytes bytes_of(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

void put_bytes(const std::string& path, const FileBytes& bytes) {
  std::ofstream(path, std::ios::binary)
      .write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
}

// A copy of the recording and its index, to be changed.
class IndexOfACopy : public testing::Test {
 protected:
  void SetUp() override {
    path_ = run_path(std::string("copy_") +
                     testing::UnitTest::GetInstance()->current_test_info()->name() + ".gmp");
    put_bytes(path_, bytes_of(indexed_run().path));
    put_bytes(index_path(path_), bytes_of(index_path(indexed_run().path)));
  }
  void TearDown() override {
    std::filesystem::remove(path_);
    std::filesystem::remove(index_path(path_));
  }
  [[nodiscard]] IndexState state() const {
    IndexState state = IndexState::missing;
    RunIndex::open(path_, state);
    return state;
  }
  std::string path_;
};

TEST_F(IndexOfACopy, IsGood) { EXPECT_EQ(state(), IndexState::good); }

TEST_F(IndexOfACopy, IsMissingIfItIsNotThere) {
  std::filesystem::remove(index_path(path_));
  EXPECT_EQ(state(), IndexState::missing);
}

TEST_F(IndexOfACopy, IsStaleIfTheRecordingIsAnotherOne) {
  FileBytes bytes = bytes_of(path_);
  bytes[bytes.size() / 2 / 64 * 64] ^= 1;  // may be between two samples
  bytes[bytes.size() - 100] ^= 1;
  put_bytes(path_, bytes);
  EXPECT_EQ(state(), IndexState::stale);
}

TEST_F(IndexOfACopy, IsStaleIfTheRecordingGrew) {
  FileBytes bytes = bytes_of(path_);
  bytes.push_back(0);
  put_bytes(path_, bytes);
  EXPECT_EQ(state(), IndexState::stale);
}

TEST_F(IndexOfACopy, IsStaleWhereverItIsCutOff) {
  const FileBytes bytes = bytes_of(index_path(path_));
  for (std::size_t size = 0; size < bytes.size(); size += 1 + bytes.size() / 97) {
    put_bytes(index_path(path_),
              FileBytes(bytes.begin(), bytes.begin() + static_cast<std::ptrdiff_t>(size)));
    EXPECT_EQ(state(), IndexState::stale) << size;
  }
}

// A part that is only read when it is asked for may be damaged behind an intact directory.
TEST_F(IndexOfACopy, NeverAnswersFromAByteThatChanged) {
  const FileBytes bytes = bytes_of(index_path(path_));
  const DeviceIndex device = indexed_run().index->devices().front();
  const Pyramid expected = indexed_run().index->pyramid(device).value();
  std::size_t refused = 0;
  for (std::size_t at = 0; at < bytes.size(); at += 1 + bytes.size() / 61) {
    FileBytes changed = bytes;
    changed[at] ^= 0x10;
    put_bytes(index_path(path_), changed);
    IndexState state = IndexState::missing;
    const std::unique_ptr<RunIndex> index = RunIndex::open(path_, state);
    if (index == nullptr) {
      ++refused;
      continue;
    }
    const Result<Pyramid> pyramid = index->pyramid(device);
    if (pyramid) {
      EXPECT_EQ(pyramid->buckets, expected.buckets);
    } else {
      EXPECT_NE(pyramid.error().sentence().find("delete it"), std::string::npos);
    }
  }
  EXPECT_GT(refused, 0U);
}

TEST_F(IndexOfACopy, TellsWhatDoesNotExist) {
  const RunIndex& index = *indexed_run().index;
  EXPECT_FALSE(index.pyramid(77));
  EXPECT_TRUE(index.checkpoints(77).empty());
  EXPECT_FALSE(index.excerpt(77, 0, 1));
  const DeviceIndex device = index.devices().front();
  EXPECT_FALSE(index.excerpt(device, 0, 4'000'000'000));
  EXPECT_FALSE(index.excerpt(device, 10, 5));
}

}  // namespace
}  // namespace gpumemprof
