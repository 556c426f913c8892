// What a long recording answers with its index, without one, and with one that does not fit.
#include "session/reported_run.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <random>

#include "event/sinks/forwarding_sink.h"
#include "long_run/long_run.h"
#include "report/json/overview_json.h"
#include "report/leaks/leaks_json.h"
#include "session/excerpt/excerpt.h"
#include "session/excerpt/scanned_run.h"
#include "session/file_info.h"
#include "session/forced_window.h"
#include "trace/writer.h"

namespace gpumemprof {
namespace {

using testing::HasSubstr;

std::string temporary(const std::string& name) {
  return (std::filesystem::path(testing::TempDir()) / (std::to_string(getpid()) + "." + name))
      .string();
}

// A failure would be proven by reading the recording whole.
class WithoutFailures final : public ForwardingSink {
 public:
  using ForwardingSink::ForwardingSink;
  void add_events(DeviceIndex device, EventColumns&& events) override {
    for (Action& action : events.action) {
      if (action == Action::oom) action = Action::snapshot;
    }
    to_.add_events(device, std::move(events));
  }
};

// A short run in a file that is as long as that of a long one: text that cannot be compressed.
std::string make_long_file() {
  long_run::LongRunOptions options;
  options.path = temporary("short.gmp");
  options.events = 60'000;
  EXPECT_TRUE(long_run::make_long_run(options));
  const std::string path = temporary("long.gmp");
  TraceOptions written;
  written.existing = FileSink::Existing::replace;
  auto writer = TraceWriter::open(path, Origin(), AllocatorSettings(), written);
  EXPECT_TRUE(writer);
  std::mt19937_64 random(5);
  for (int row = 0; row < 200'000; ++row) {
    std::string text;
    for (int letter = 0; letter < 64; ++letter) text += static_cast<char>('0' + random() % 75);
    writer.value()->add_string(text);
  }
  WithoutFailures sink(*writer.value());
  EXPECT_TRUE(open_source(options.path, {}).value()->deliver(sink));
  EXPECT_TRUE(writer.value()->close("exit 0"));
  std::filesystem::remove(options.path);
  return path;
}

class LongFile : public testing::Test {
 protected:
  static void SetUpTestSuite() { shared_path = make_long_file(); }
  static void TearDownTestSuite() { std::filesystem::remove(shared_path); }
  void TearDown() override { std::filesystem::remove_all(index_path(shared_path)); }

  static std::unique_ptr<ReportedRun> open() { return ReportedRun::open(shared_path).value(); }
  static std::string report(ReportedRun& run, const OverviewOptions& options = {}) {
    const Result<Overview> overview = run.overview(options);
    if (!overview) return overview.error().sentence();
    return overview_json(overview.value(), run.store(), kAllGroups);
  }
  // Nothing can be written where its index would be.
  static void block_index() {
    std::filesystem::create_directories(index_path(shared_path) + "/something");
  }
  static std::string shared_path;
};

std::string LongFile::shared_path;

TEST_F(LongFile, IsReadInWindowsAndLeavesAnIndex) {
  ASSERT_TRUE(is_long_recording(shared_path));
  const std::unique_ptr<ReportedRun> first = open();
  EXPECT_EQ(first->whole(), nullptr);
  const std::string made = report(*first);
  EXPECT_TRUE(std::filesystem::exists(index_path(shared_path)));
  EXPECT_EQ(first->note(), "");
  EXPECT_TRUE(report(*open()) == made);
  const auto whole = Recording::open(shared_path).value();
  EXPECT_TRUE(overview_json(whole->overview().value(), whole->store(), kAllGroups) == made);
}

TEST_F(LongFile, HasTheSameLeaksHoweverItIsRead) {
  const auto whole = Recording::open(shared_path).value();
  LeaksOptions suppressing;
  suppressing.suppressions = {"train.py"};
  LeaksOptions limited;
  limited.memory_limit_bytes = std::uint64_t{1} << 40U;
  for (const LeaksOptions& options : {LeaksOptions(), suppressing, limited}) {
    const std::string expected = leaks_json(whole->leaks(options).value(), whole->store());
    for (int time = 0; time < 2; ++time) {  // without and with an index
      const std::unique_ptr<ReportedRun> run = open();
      EXPECT_EQ(leaks_json(run->leaks(options).value(), run->store()), expected);
    }
  }
  LeaksOptions elsewhere;
  elsewhere.device = 7;
  EXPECT_THAT(open()->leaks(elsewhere).error().sentence(), HasSubstr("there is no device 7"));
}

TEST_F(LongFile, AnswersAboutAnEventWithAndWithoutAnIndex) {
  const OverviewOptions options{{AskedMoment::Kind::event, 31'234}, {}};
  const std::string made = report(*open(), options);
  EXPECT_TRUE(std::filesystem::exists(index_path(shared_path)));
  EXPECT_TRUE(report(*open(), options) == made);
  std::filesystem::remove(index_path(shared_path));
  block_index();
  EXPECT_TRUE(report(*open(), options) == made);
  EXPECT_THAT(report(*open(), {{AskedMoment::Kind::event, 4'000'000'000U}, {}}),
              HasSubstr("there is no event 4000000000 on cuda:0"));
}

// What is reported of a step is exact however the recording is read.
void expect_peak_of_step(const std::string& path, std::uint32_t step) {
  const auto whole = Recording::open(path).value();
  OverviewOptions options;
  options.at = {AskedMoment::Kind::step, 0, step};
  const std::vector<StepFigures> steps = whole->overview().value().devices[0].sources.steps;
  const auto figures = std::ranges::find(steps, step, &StepFigures::step);
  ASSERT_NE(figures, steps.end());
  const auto expect_it = [&](const Result<Overview>& overview) {
    ASSERT_TRUE(overview) << overview.error().sentence();
    const DeviceOverview& device = overview.value().devices.front();
    EXPECT_EQ(device.asked.step, step);
    EXPECT_EQ(device.asked_when.step, step);
    EXPECT_EQ(device.asked_when.event, figures->peak_event);
    EXPECT_EQ(device.totals.allocated_bytes, figures->peak_bytes);
  };
  expect_it(whole->overview(options));
  expect_it(ReportedRun::open(path).value()->overview(options));
}

TEST_F(LongFile, AnswersAboutAStepWithAndWithoutAnIndex) {
  const std::uint32_t last = open()->overview().value().devices.front().sources.steps.back().step;
  for (const std::uint32_t step : {1U, last / 2, last}) {
    expect_peak_of_step(shared_path, step);  // makes an index
    expect_peak_of_step(shared_path, step);
    std::filesystem::remove(index_path(shared_path));
    block_index();
    expect_peak_of_step(shared_path, step);
    std::filesystem::remove_all(index_path(shared_path));
  }
  OverviewOptions nowhere;
  nowhere.at = {AskedMoment::Kind::step, 0, 4'000'000};
  EXPECT_THAT(report(*open(), nowhere),
              HasSubstr("there is no step 4000000 on cuda:0; its steps are 1 to " +
                        std::to_string(last) + ";"));
}

TEST(ReportedRun, AnswersAboutAStepOfWhichAReportKeepsNoFigures) {
  constexpr std::uint32_t kSteps = 3'500;
  const std::string path = temporary("steps.gmp");
  Origin origin;
  origin.device_type = "cpu";
  origin.has_start = true;
  auto writer = TraceWriter::open(path, origin, AllocatorSettings());
  ASSERT_TRUE(writer);
  EventColumns events;
  for (std::uint32_t step = 0; step < kSteps; ++step) {
    for (const std::uint64_t size_bytes : {64U, 128 + 64 * (step % 7), 64U}) {
      for (const Action action : {Action::alloc, Action::free_requested, Action::free_completed}) {
        Event event;
        event.action = action;
        event.address = 4096;
        event.size_bytes = size_bytes;
        event.time_ns = static_cast<std::int64_t>(events.size());
        events.push_back(event);
      }
    }
  }
  writer.value()->add_stream(0);
  writer.value()->add_events(0, std::move(events));
  for (std::uint32_t step = 0; step < kSteps; ++step) {
    writer.value()->add_phase_mark({0, PhaseMark::Kind::optimizer_start, 0, 9 * step + 3});
    writer.value()->add_phase_mark({0, PhaseMark::Kind::optimizer_end, 0, 9 * step + 6});
  }
  ASSERT_TRUE(writer.value()->close("exit 0"));
  const ForcedWindow windows(500);
  const auto kept =
      ReportedRun::open(path).value()->overview().value().devices.front().sources.steps;
  const auto before_gap =
      std::ranges::find_if(kept, [](const StepFigures& step) { return step.left_out.count > 0; });
  ASSERT_NE(before_gap, kept.end());
  expect_peak_of_step(path, before_gap->step + 3);
  std::filesystem::remove(path);
}

TEST_F(LongFile, SaysThatAnIndexOfAnotherRecordingIsMadeAgain) {
  std::ofstream(index_path(shared_path)) << "an index of another version";
  const std::unique_ptr<ReportedRun> run = open();
  EXPECT_THAT(run->note(), HasSubstr("belongs to another recording or version: it is made again"));
  const std::string made = report(*run);
  EXPECT_EQ(open()->note(), "");
  EXPECT_TRUE(report(*open()) == made);
}

TEST_F(LongFile, ReportsWhereNoIndexCanBeWritten) {
  const std::string expected = report(*open());
  std::filesystem::remove(index_path(shared_path));
  block_index();
  const std::unique_ptr<ReportedRun> run = open();
  EXPECT_TRUE(report(*run) == expected);
  EXPECT_THAT(run->note(), HasSubstr("no index was written beside it"));
}

TEST_F(LongFile, OpensAPartWithAndWithoutAnIndex) {
  const auto part_json = [&] {
    const auto part = open_excerpt(shared_path, {AskedPart::Kind::steps, 4, 6, {}}).value();
    nlohmann::json report =
        nlohmann::json::parse(overview_json(part->overview().value(), part->store(), kAllGroups));
    return report;
  };
  block_index();
  const nlohmann::json read = part_json();
  std::filesystem::remove_all(index_path(shared_path));
  const nlohmann::json made = part_json();
  EXPECT_TRUE(std::filesystem::exists(index_path(shared_path)));
  EXPECT_TRUE(read == made) << nlohmann::json::diff(read, made).dump().substr(0, 2000);
  EXPECT_TRUE(part_json() == made);
}

TEST_F(LongFile, IsCopiedWhileItIsRead) {
  const std::string copy = temporary("copy.gmp");
  const Result<ScannedRun> copied =
      copy_run(look_at_file(shared_path).value(), {}, copy, FileSink::Existing::replace);
  ASSERT_TRUE(copied) << copied.error().sentence();
  EXPECT_FALSE(copied.value().cut.has_value());
  const auto report_of = [](const std::string& path) {
    const auto recording = Recording::open(path).value();
    Overview overview = recording->overview().value();
    overview.path.clear();
    return overview_json(overview, recording->store(), kAllGroups);
  };
  EXPECT_TRUE(report_of(copy) == report_of(shared_path));
  EXPECT_EQ(copied.value().info.completeness.recorded.total(),
            Recording::open(shared_path).value()->store().event_count());
  std::filesystem::remove(copy);
  EXPECT_THAT(
      copy_run(look_at_file(shared_path).value(), {}, "/dev/full", FileSink::Existing::replace)
          .error()
          .sentence(),
      HasSubstr("the disk is full"));
}

TEST(CopiedRun, HasAFileWithoutAnEventToo) {
  TraceOptions written;
  written.existing = FileSink::Existing::replace;
  const std::string path = temporary("empty.gmp");
  const auto writer = TraceWriter::open(path, Origin(), AllocatorSettings(), written);
  ASSERT_TRUE(writer);
  ASSERT_TRUE(writer.value()->close("exit 0"));

  const std::string copy = temporary("copy_of_empty.gmp");
  EXPECT_TRUE(copy_run(look_at_file(path).value(), {}, copy, FileSink::Existing::replace));
  EXPECT_TRUE(Recording::open(copy));
  std::filesystem::remove(path);
  std::filesystem::remove(copy);
}

}  // namespace
}  // namespace gpumemprof
