// Whoever watches a recording sees what a report says of the same bytes: closed or not, cut off
// anywhere, read at once or while it grows.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <random>

#include "event/facts.h"
#include "follow/followed_run.h"
#include "report/live/live_json.h"
#include "session/gmp_file.h"
#include "session/recorded_chapters.h"
#include "session/recording.h"
#include "trace/format.h"
#include "trace/writer.h"

namespace gpumemprof {
namespace {

constexpr int kCuts = 24;

std::uint32_t chosen_seed() {
  const char* text = std::getenv("GPUMEMPROF_TEST_SEED");
  return text == nullptr ? 1 : static_cast<std::uint32_t>(std::strtoul(text, nullptr, 10));
}

std::string bytes_of(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

void append(const std::string& path, std::string_view bytes) {
  std::ofstream(path, std::ios::binary | std::ios::app)
      .write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
}

// All .gmp files below a folder, and what it has of snapshots as such files.
std::vector<std::string> recordings_in(const std::string& from, const ScratchFolder& folder) {
  std::vector<std::string> found;
  for (const auto& entry : fs::recursive_directory_iterator(from)) {
    const std::string path = entry.path().string();
    if (path.ends_with(".gmp")) {
      found.push_back(path);
    } else if (path.ends_with(".pickle.gz") || path.ends_with(".pickle")) {
      const auto recording = Recording::open(path);
      if (!recording) continue;
      found.push_back(folder.file(entry.path().filename().string() + ".gmp"));
      EXPECT_TRUE(write_gmp_file(recording.value()->store(), found.back(),
                                 FileSink::Existing::replace, {}));
    }
  }
  std::ranges::sort(found);
  return found;
}

std::vector<std::string> generated(const ScratchFolder& folder) {
  std::vector<std::string> found;
  for (const char* settings : {"", "expandable_segments:True", "max_split_size_mb:32"}) {
    Workload run;
    run.settings = settings;
    run.seed = chosen_seed() + static_cast<std::uint32_t>(found.size());
    run.flush_every = 700;
    if (found.empty()) run.device_bytes = std::uint64_t{600} << 20;  // runs out of memory
    found.push_back(folder.file("generated" + std::to_string(found.size()) + ".gmp"));
    (void)record(run, {options_of(found.back(), 0)});
  }
  return found;
}

void expect_figures_of(const LiveReport& live, const Recording& recording) {
  std::size_t shown = 0;
  for (std::size_t index = 0; index < recording.replays().size(); ++index) {
    const DeviceRecord& record = *recording.store().devices()[index];
    const DeviceReplay& replay = recording.replays()[index];
    const std::string name = recording.store().device_name(record.device);
    const auto device = std::ranges::find(live.devices, name, &LiveDevice::name);
    if (device == live.devices.end()) {
      EXPECT_EQ(record.events.size() + replay.end.totals.reserved_bytes, 0) << name;
      continue;
    }
    ++shown;
    EXPECT_EQ(device->events, record.events.size());
    // What was there before a recording that does not list it follows from its end, which no one
    // who watches knows. Snapshots are of this kind; the recorder writes none.
    if (device->has_pool && !recording.store().origin().has_start) {
      EXPECT_FALSE(device->is_exact);
      continue;
    }
    EXPECT_EQ(device->is_exact, replay.exact_from_event == 0);
    EXPECT_EQ(device->allocated_bytes, replay.end.totals.allocated_bytes);
    EXPECT_EQ(device->active_bytes, replay.end.totals.active_bytes);
    EXPECT_EQ(device->reserved_bytes, replay.end.totals.reserved_bytes);
    EXPECT_EQ(device->peak_allocated_bytes, replay.peak.allocated_bytes);
    EXPECT_EQ(device->peak_reserved_bytes, replay.peak_reserved_bytes);
    EXPECT_EQ(device->ooms, replay.counters.ooms);
    std::uint64_t requested = 0;
    for (std::size_t row = 0; row < record.allocations.size(); ++row) {
      if (record.allocations.is_allocated_at(row, Moment::end()))
        requested += record.allocations.requested_bytes[row];
    }
    std::uint64_t by_source = 0;
    for (const std::uint64_t bytes : device->bytes_by_source) by_source += bytes;
    EXPECT_EQ(by_source, requested);
  }
  EXPECT_EQ(live.devices.size(), shown);
}

LiveReport followed(const std::string& path) {
  const auto run = FollowedRun::open(path);
  EXPECT_TRUE(run) << (run ? "" : run.error().sentence());
  const Result<LiveReport> report = run.value()->read(kEverything, 50, 50);
  return report ? report.value() : run.value()->report(50, 50);
}

// Without what depends on when one looked.
std::string lasting_figures(LiveReport report) {
  report.path.clear();
  for (LiveDevice& device : report.devices) {
    device.recent_peak_allocated_bytes = device.recent_peak_reserved_bytes = 0;
    device.recent_peak_used_bytes.reset();
  }
  return live_json(report);
}

class LiveEqualsReport : public ::testing::TestWithParam<const char*> {
 protected:
  [[nodiscard]] std::vector<std::string> recordings() const {
    const std::string which = GetParam();
    return which == "generated" ? generated(folder_) : recordings_in(which, folder_);
  }
  ScratchFolder folder_;
};

TEST_P(LiveEqualsReport, of_the_same_bytes_whole_and_cut_off_anywhere) {
  std::mt19937 random(chosen_seed());
  const std::string cut = folder_.file("cut.bytes");
  for (const std::string& path : recordings()) {
    const std::string bytes = bytes_of(path);
    std::uniform_int_distribution<std::size_t> anywhere(trace::kFileHeaderBytes, bytes.size());
    for (int round = 0; round < kCuts; ++round) {
      const std::size_t size = round == 0 ? bytes.size() : anywhere(random);
      SCOPED_TRACE(path + ", " + std::to_string(size) + " bytes, seed " +
                   std::to_string(chosen_seed()));
      fs::remove(cut);
      append(cut, std::string_view(bytes).substr(0, size));
      const auto recording = Recording::open(cut);
      ASSERT_TRUE(recording) << recording.error().sentence();
      expect_figures_of(followed(cut), *recording.value());
    }
  }
}

TEST_P(LiveEqualsReport, whose_file_grew_under_its_eyes) {
  std::mt19937 random(chosen_seed());
  for (const std::string& path : recordings()) {
    SCOPED_TRACE(path + ", seed " + std::to_string(chosen_seed()));
    const std::string bytes = bytes_of(path);
    if (bytes.size() < trace::kFileHeaderBytes) continue;
    const std::string growing = folder_.file("growing.bytes");
    fs::remove(growing);
    std::size_t size = trace::kFileHeaderBytes;
    append(growing, std::string_view(bytes).substr(0, size));
    const auto run = FollowedRun::open(growing).value();
    std::uniform_int_distribution<std::size_t> part(1, std::max<std::size_t>(bytes.size() / 12, 1));
    LiveReport last;
    while (size < bytes.size()) {
      const std::size_t more = std::min(part(random), bytes.size() - size);
      append(growing, std::string_view(bytes).substr(size, more));
      size += more;
      const Result<LiveReport> report = run->read(kEverything, 50, 50);
      last = report ? report.value() : run->report(50, 50);
    }
    EXPECT_EQ(lasting_figures(last), lasting_figures(followed(path)));
  }
}

// A file of a few kilobytes that stands for hundreds of millions of events, as nobody records them.
std::string bomb(const ScratchFolder& folder) {
  const std::string path = folder.file("bomb.gmp");
  Origin origin;
  origin.device_type = "cpu";
  const auto writer = TraceWriter::open(path, origin, {}).value();
  EventColumns events;
  for (std::size_t pair = 0; pair < (std::size_t{1} << 15); ++pair) {
    Event event;
    event.action = Action::alloc;
    event.address = 4096;
    event.size_bytes = 512;
    events.push_back(event);
    event.action = Action::free_completed;
    events.push_back(event);
  }
  for (int block = 0; block < 80; ++block) writer->append_events(0, events);
  EXPECT_TRUE(writer->close("exit 0"));
  return path;
}

TEST(LiveOfAForgedFile, stops_at_the_limit_of_the_report_with_its_sentence) {
  const ScratchFolder folder;
  const std::string path = bomb(folder);
  const auto recording = Recording::open(path);
  ASSERT_TRUE(recording);
  const std::optional<Error> cut = recording.value()->cut();
  ASSERT_TRUE(cut);
  const auto run = FollowedRun::open(path).value();
  const Result<LiveReport> report = run->read(kEverything, 5, 5);
  ASSERT_FALSE(report);
  EXPECT_EQ(report.error().message, cut->message);
  EXPECT_EQ(report.error().where, cut->where);
  EXPECT_EQ(report.error().code, cut->code);
  expect_figures_of(run->report(5, 5), *recording.value());
}

TEST(LiveOfAForgedFile, takes_part_of_the_events_at_each_look) {
  const ScratchFolder folder;
  const std::string path = bomb(folder);
  const auto run = FollowedRun::open(path).value();
  const std::uint64_t most_bytes = 1 << 16;
  ASSERT_LT(most_bytes, fs::file_size(path) * 16);
  std::uint64_t before = 0;
  while (const Result<LiveReport> report = run->read(most_bytes, 5, 5)) {
    const std::uint64_t events = report.value().devices.at(0).events;
    EXPECT_LE(events - before, 2 * most_bytes + trace::kMaxBlockEvents);
    before = events;
  }
}

TEST(LiveOfAForgedFile, goes_on_if_the_user_allows_the_memory) {
  const ScratchFolder folder;
  const auto run = FollowedRun::open(bomb(folder), std::uint64_t{8} << 30).value();
  const Result<LiveReport> report = run->read(kEverything, 5, 5);
  ASSERT_TRUE(report) << report.error().sentence();
  EXPECT_TRUE(report.value().ending);
}

INSTANTIATE_TEST_SUITE_P(Recordings, LiveEqualsReport,
                         ::testing::Values(GPUMEMPROF_TEST_DATA,
                                           GPUMEMPROF_TEST_DATA "/../../fuzz/seeds", "generated"));

}  // namespace
}  // namespace gpumemprof
