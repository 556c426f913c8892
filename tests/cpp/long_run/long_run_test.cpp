// What bench/make_long_run says about the recordings it writes is what reports find in them.
#include "long_run/long_run.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <memory>
#include <utility>

#include "report/json/overview_json.h"
#include "session/recording.h"
#include "windows/windowed_run.h"

namespace gpumemprof::long_run {
namespace {

// Removes its file.
class WrittenRun {
 public:
  explicit WrittenRun(std::uint64_t events, bool has_labels = true) {
    std::string path = (std::filesystem::temp_directory_path() / "long_run_XXXXXX").string();
    const int file = ::mkstemp(path.data());
    EXPECT_NE(file, -1);
    ::close(file);
    LongRunOptions options;
    options.path = path;
    options.events = events;
    options.has_labels = has_labels;
    Result<LongRun> made = make_long_run(options);
    EXPECT_TRUE(made.ok());
    run_ = std::move(made).value();
  }
  WrittenRun(const WrittenRun&) = delete;
  WrittenRun& operator=(const WrittenRun&) = delete;
  ~WrittenRun() { std::filesystem::remove(run_.path); }

  [[nodiscard]] const LongRun& run() const { return run_; }
  [[nodiscard]] const TrainingSummary& training() const { return run_.training; }
  [[nodiscard]] std::string bytes() const {
    std::ifstream file(run_.path, std::ios::binary);
    return {std::istreambuf_iterator<char>(file), {}};
  }

 private:
  LongRun run_;
};

// One with an evaluation, which takes 500 steps, as it is read back.
struct ReadRun {
  WrittenRun written{1'600'000};
  std::shared_ptr<const Recording> recording = Recording::open(written.run().path).value();
  Overview overview = std::move(recording->overview()).value();
};

// Not in debug builds, where the simulated allocator looks all of itself over after every
// operation.
class LongRunTest : public testing::Test {
 protected:
  void SetUp() override {
#ifndef NDEBUG
    GTEST_SKIP() << "takes minutes in a debug build";
#endif
  }

  static const ReadRun& shared() {
    static const ReadRun kRun;
    return kRun;
  }
  static const WrittenRun& written() { return shared().written; }
  static const Recording& recording() { return *shared().recording; }
  static const Overview& overview() { return shared().overview; }
  static const DeviceOverview& device() { return overview().devices.at(0); }
  static const SourceFigure& figure(MemorySource source) {
    return device().sources.figures[static_cast<std::size_t>(source)];
  }
  static std::uint64_t peak_of_step(std::uint64_t number) {
    for (const StepFigures& each : device().sources.steps)
      if (each.step == number) return each.peak_bytes;
    return 0;
  }
  static std::string line_of(FrameId frame) {
    const Store& store = recording().store();
    const Frame& found = store.frame(frame);
    return std::filesystem::path(store.text(found.file)).filename().string() + ":" +
           std::to_string(found.line) + " " + std::string(store.text(found.name));
  }
};

TEST_F(LongRunTest, IsACompleteLiveRecordingThatReplaysExactly) {
  EXPECT_EQ(recording().store().origin().kind, kLiveRun);
  EXPECT_TRUE(overview().completeness.is_whole());
  EXPECT_EQ(overview().events, written().run().counts.total());
  EXPECT_EQ(overview().allocations, written().run().counts.allocations);
  EXPECT_EQ(overview().frees, written().run().counts.frees);
  EXPECT_EQ(device().replay.contradictions, 0U);
  EXPECT_EQ(device().replay.exact_from_event, 0U);
  // About as many events as were asked for.
  EXPECT_NEAR(static_cast<double>(overview().events), 1.6e6, 5e3);
}

TEST_F(LongRunTest, HasItsPeakWhereItSays) {
  const Peak& peak = written().training().peak;
  EXPECT_EQ(device().replay.peak.allocated_bytes, peak.allocated.bytes);
  EXPECT_EQ(device().replay.peak_event, peak.allocated.event);
  EXPECT_EQ(device().replay.peak_reserved_bytes, peak.reserved.bytes);
  EXPECT_EQ(device().replay.peak_reserved_event, peak.reserved.event);
  EXPECT_EQ(device().sources.peak_step, written().training().second.step);
  EXPECT_EQ(peak.allocated.bytes, written().training().second.peak.allocated.bytes);
}

TEST_F(LongRunTest, HasTwoStepsThatStandOut) {
  const TrainingSummary& training = written().training();
  EXPECT_EQ(device().sources.steps.back().step, training.steps);
  EXPECT_EQ(peak_of_step(training.first.step), training.first.peak.allocated.bytes);
  EXPECT_EQ(peak_of_step(training.second.step), training.second.peak.allocated.bytes);
  for (const StepFigures& each : device().sources.steps) {
    if (each.step == training.first.step || each.step == training.second.step) continue;
    EXPECT_LT(each.peak_bytes, training.first.peak.allocated.bytes);
  }
}

TEST_F(LongRunTest, EvaluatesEvery500Steps) {
  ASSERT_EQ(written().training().evaluations, 1U);
  std::uint64_t evaluations = 0;
  for (const PhaseFigures& phase : device().sources.phases)
    evaluations += phase.phase == Phase::evaluation ? 1 : 0;
  EXPECT_EQ(evaluations, 1U);
}

TEST_F(LongRunTest, SaysWhatItsMemoryIsFor) {
  const std::uint64_t bytes = written().run().parameter_bytes;
  EXPECT_EQ(figure(MemorySource::parameters).bytes_at_peak, bytes);
  EXPECT_EQ(figure(MemorySource::optimizer_state).bytes_at_peak, 2 * bytes);
  EXPECT_EQ(figure(MemorySource::gradients).bytes_max, bytes);
  EXPECT_GT(figure(MemorySource::activations).bytes_at_peak, device().sources.peak_bytes / 2);
  for (const MemorySource source : {MemorySource::parameters, MemorySource::optimizer_state,
                                    MemorySource::gradients, MemorySource::activations})
    EXPECT_EQ(figure(source).max_provenance, Provenance::measured);
}

TEST_F(LongRunTest, LeaksAtOneLine) {
  const Growth& growth = device().growth;
  ASSERT_TRUE(growth.is_growing);
  EXPECT_EQ(growth.grown_bytes, written().training().leaked_bytes);
  EXPECT_EQ(line_of(growth.line), "train.py:88 log_loss");
  EXPECT_EQ(growth.since_step, kLeakEverySteps);
}

TEST_F(LongRunTest, RunsOutOfMemoryOnceAndGoesOn) {
  ASSERT_EQ(device().ooms.size(), 1U);
  EXPECT_EQ(device().ooms[0].event, written().training().oom_event);
  EXPECT_EQ(device().ooms[0].cause, OomCause::larger_than_card);
  EXPECT_EQ(device().replay.counters.alloc_retries, 1U);
}

TEST(LongRunFile, HasNoLabelsIfNoneAreWanted) {
  const WrittenRun written(30'000, false);
  const auto recording = Recording::open(written.run().path).value();
  const DeviceOverview device = std::move(recording->overview()).value().devices.at(0);
  EXPECT_FALSE(device.sources.has_labels);
  EXPECT_EQ(device.replay.contradictions, 0U);
  EXPECT_EQ(device.replay.peak_event, written.training().peak.allocated.event);
  EXPECT_EQ(device.sources.steps.back().step, written.training().steps);
}

TEST(LongRunFile, HasTheSameReportIfItIsReadInWindows) {
  for (const bool has_labels : {true, false}) {
    const WrittenRun written(300'000, has_labels);
    const std::string& path = written.run().path;
    const auto whole = Recording::open(path).value();
    WindowedRun windowed(
        path, [&](EventSink& sink) { return open_source(path, {}).value()->deliver(sink); },
        WindowSizes{30'000});
    ASSERT_TRUE(windowed.survey().value());
    const Overview expected = whole->overview().value();
    EXPECT_EQ(expected.devices.at(0).leaks->verdict, LeakVerdict::leak);
    const Overview found = windowed.overview({}).value();
    // Not EXPECT_EQ, which would print both.
    EXPECT_TRUE(overview_json(expected, whole->store(), kAllGroups) ==
                overview_json(found, windowed.store(), kAllGroups))
        << (has_labels ? "with labels" : "without labels");
  }
}

TEST(LongRunFile, IsTheSameForTheSameSeed) {
  EXPECT_EQ(WrittenRun(12'000).bytes(), WrittenRun(12'000).bytes());
}

}  // namespace
}  // namespace gpumemprof::long_run
