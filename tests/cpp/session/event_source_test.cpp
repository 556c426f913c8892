// Everything is a stream: a recording made in memory gives the same report as one from a file.
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "report/json/overview_json.h"
#include "report/text/overview/overview_text.h"
#include "session/gmp_file.h"
#include "session/recording.h"
#include "store/store_source.h"

namespace gpumemprof {
namespace {

class TempFolder {
 public:
  TempFolder() {
    std::string name = (std::filesystem::temp_directory_path() / "gpumemprof-XXXXXX").string();
    EXPECT_NE(::mkdtemp(name.data()), nullptr);
    path_ = name;
  }
  TempFolder(const TempFolder&) = delete;
  TempFolder& operator=(const TempFolder&) = delete;
  ~TempFolder() { std::filesystem::remove_all(path_); }
  [[nodiscard]] std::string file(const std::string& name) const { return path_ + "/" + name; }

 private:
  std::string path_;
};

// Two allocations, of which one is freed, from two lines of a program.
class SmallRun final : public EventSource {
 public:
  Status deliver(EventSink& sink) override {
    Origin origin;
    origin.kind = "gpumemprof";
    origin.has_start = true;
    origin.has_traces = true;
    origin.facts = {{"device 0 num_alloc_retries", "3"}};
    Ending ending;
    ending.is_closed = true;
    ending.reason = "exit 0";
    origin.ending = ending;
    sink.set_origin(origin);
    const std::uint32_t stream = sink.add_stream(0);
    const StringId file = sink.add_string("/program/train.py");
    const StackId main = sink.add_stack({}, sink.add_frame({sink.add_string("main"), file, 3}));
    const StackId step = sink.add_stack(main, sink.add_frame({sink.add_string("step"), file, 7}));
    EventColumns events;
    const auto add = [&](Action action, std::uint64_t address, std::uint64_t bytes, StackId stack) {
      Event event;
      event.action = action;
      event.address = address;
      event.size_bytes = bytes;
      event.stream = stream;
      event.stack = stack;
      event.time_ns = static_cast<std::int64_t>(events.size()) * 1000;
      events.push_back(event);
    };
    constexpr std::uint64_t kBase = std::uint64_t{1} << 40;
    constexpr std::uint64_t kMiB = std::uint64_t{1} << 20;
    add(Action::segment_alloc, kBase, 20 * kMiB, main);
    add(Action::alloc, kBase, 4 * kMiB, main);
    add(Action::alloc, kBase + 4 * kMiB, 8 * kMiB, step);
    add(Action::free_requested, kBase + 4 * kMiB, 8 * kMiB, step);
    add(Action::free_completed, kBase + 4 * kMiB, 8 * kMiB, step);
    sink.add_events(0, std::move(events));
    return Done{};
  }
};

class NoSource final : public EventSource {
 public:
  Status deliver(EventSink&) override {
    return Error{ErrorCode::bad_input, "nothing arrived", "memory", "try again"};
  }
};

std::string json_of(const Recording& recording) {
  return overview_json(recording.overview().value(), recording.store(), kAllGroups);
}

std::string text_of(const Recording& recording) {
  return overview_text(recording.overview().value(), recording.store(), {});
}

TEST(RecordingFrom, memory_reports_what_the_same_events_in_a_file_do) {
  SmallRun run;
  const auto in_memory = Recording::from(run, "run.gmp");
  ASSERT_TRUE(in_memory);
  const TempFolder folder;
  const std::string path = folder.file("run.gmp");
  ASSERT_TRUE(write_gmp_file(in_memory.value()->store(), path, FileSink::Existing::refuse));
  const auto from_file = Recording::open(path);
  ASSERT_TRUE(from_file);
  const Overview expected = from_file.value()->overview().value();
  const Overview found = in_memory.value()->overview().value();
  ASSERT_EQ(found.devices.size(), 1U);
  EXPECT_EQ(found.devices[0].replay.peak.allocated_bytes, std::uint64_t{12} << 20);
  EXPECT_EQ(found.devices[0].replay.peak, expected.devices[0].replay.peak);
  EXPECT_EQ(found.devices[0].replay.counters.alloc_retries, 3U);
  const auto page = [&](const Overview& overview, const Recording& recording) {
    Overview named = overview;
    named.path = "run.gmp";
    return overview_text(named, recording.store(), {});
  };
  EXPECT_EQ(page(found, *in_memory.value()), page(expected, *from_file.value()));
}

class RecordingFromFile : public ::testing::TestWithParam<const char*> {};

TEST_P(RecordingFromFile, equals_one_that_is_passed_on_in_memory) {
  const std::string path = GPUMEMPROF_TEST_DATA + std::string("/") + GetParam();
  const auto opened = Recording::open(path);
  ASSERT_TRUE(opened) << opened.error().sentence();
  StoreSource source(opened.value()->store());
  const auto passed_on = Recording::from(source, path);
  ASSERT_TRUE(passed_on);
  EXPECT_EQ(json_of(*passed_on.value()), json_of(*opened.value()));
  EXPECT_EQ(text_of(*passed_on.value()), text_of(*opened.value()));
}

INSTANTIATE_TEST_SUITE_P(EveryKind, RecordingFromFile,
                         ::testing::Values("traces/cpu_training.gmp", "traces/everything.gmp",
                                           "snapshots/oom_fragmented.pickle.gz"));

TEST(RecordingFrom, a_source_that_fails_says_why) {
  NoSource source;
  const auto recording = Recording::from(source, "memory");
  ASSERT_FALSE(recording);
  EXPECT_EQ(recording.error().message, "nothing arrived");
}

TEST(Formats, are_recognised_by_their_first_bytes_and_not_by_their_names) {
  const TempFolder folder;
  for (const auto& [from, to] : {std::pair("traces/cpu_training.gmp", "run.pickle"),
                                 std::pair("snapshots/oom_fragmented.pickle.gz", "run.gmp")}) {
    std::filesystem::copy_file(GPUMEMPROF_TEST_DATA + std::string("/") + from, folder.file(to));
    EXPECT_TRUE(Recording::open(folder.file(to))) << to;
  }
}

TEST(Formats, have_names_of_their_own_and_can_be_read_or_written) {
  for (const Format& format : formats()) {
    EXPECT_EQ(find_format(format.name), &format);
    EXPECT_TRUE(format.open != nullptr || format.write != nullptr) << format.name;
    EXPECT_EQ(format.open == nullptr, format.sniff == nullptr) << format.name;
    EXPECT_TRUE(format.suffix.starts_with('.')) << format.name;
  }
  EXPECT_EQ(find_format("xls"), nullptr);
}

TEST(Formats, that_can_be_read_and_written_keep_a_recording) {
  SmallRun run;
  const auto recording = Recording::from(run, "run");
  ASSERT_TRUE(recording);
  const TempFolder folder;
  for (const Format& format : formats()) {
    if (format.write == nullptr || format.open == nullptr) continue;
    const std::string path = folder.file("run" + std::string(format.suffix));
    ASSERT_TRUE(format.write(*recording.value(), path, FileSink::Existing::refuse)) << format.name;
    EXPECT_FALSE(format.write(*recording.value(), path, FileSink::Existing::refuse))
        << format.name << " replaces a file";
    const auto again = Recording::open(path);
    ASSERT_TRUE(again) << format.name;
    EXPECT_EQ(again.value()->overview().value().devices[0].replay.peak,
              recording.value()->overview().value().devices[0].replay.peak);
  }
}

}  // namespace
}  // namespace gpumemprof
