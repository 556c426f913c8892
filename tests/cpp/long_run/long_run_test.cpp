// What bench/make_long_run says about the recordings it writes is what reports find in them.
#include "long_run/long_run.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>

#include "session/recording.h"

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

// One with an evaluation, which takes 500 steps, read once for all tests. Not in debug builds,
// where the simulated allocator looks all of itself over after every operation.
class LongRunTest : public testing::Test {
 protected:
#ifdef NDEBUG
  static constexpr bool kIsFast = true;
#else
  static constexpr bool kIsFast = false;
#endif
  void SetUp() override {
    if (!kIsFast) GTEST_SKIP() << "takes minutes in a debug build";
  }
  static void SetUpTestSuite() {
    if (!kIsFast) return;
    written_ = std::make_unique<WrittenRun>(1'600'000);
    auto opened = Recording::open(written_->run().path);
    ASSERT_TRUE(opened.ok());
    recording_ = opened.value();
    auto overview = recording_->overview();
    ASSERT_TRUE(overview.ok());
    overview_ = std::make_unique<Overview>(std::move(overview).value());
  }
  static void TearDownTestSuite() {
    overview_.reset();
    recording_.reset();
    written_.reset();
  }

  static const DeviceOverview& device() { return overview_->devices.at(0); }
  static const SourceFigure& figure(MemorySource source) {
    return device().sources.figures[static_cast<std::size_t>(source)];
  }
  static const StepFigures& step(std::uint64_t number) {
    const std::vector<StepFigures>& steps = device().sources.steps;
    return *std::find_if(steps.begin(), steps.end(),
                         [&](const StepFigures& each) { return each.step == number; });
  }
  static std::string line_of(FrameId frame) {
    const Store& store = recording_->store();
    const Frame& found = store.frame(frame);
    return std::filesystem::path(store.text(found.file)).filename().string() + ":" +
           std::to_string(found.line) + " " + std::string(store.text(found.name));
  }

  static std::unique_ptr<WrittenRun> written_;
  static std::shared_ptr<const Recording> recording_;
  static std::unique_ptr<Overview> overview_;
};

std::unique_ptr<WrittenRun> LongRunTest::written_;
std::shared_ptr<const Recording> LongRunTest::recording_;
std::unique_ptr<Overview> LongRunTest::overview_;

TEST_F(LongRunTest, IsACompleteLiveRecordingThatReplaysExactly) {
  EXPECT_EQ(recording_->store().origin().kind, kLiveRun);
  EXPECT_TRUE(overview_->completeness.is_whole());
  EXPECT_EQ(overview_->events, written_->run().counts.total());
  EXPECT_EQ(overview_->allocations, written_->run().counts.allocations);
  EXPECT_EQ(overview_->frees, written_->run().counts.frees);
  EXPECT_EQ(device().replay.contradictions, 0U);
  EXPECT_EQ(device().replay.exact_from_event, 0U);
  // About as many events as were asked for.
  EXPECT_NEAR(static_cast<double>(overview_->events), 1.6e6, 5e3);
}

TEST_F(LongRunTest, HasItsPeakWhereItSays) {
  const Peak& peak = written_->training().peak;
  EXPECT_EQ(device().replay.peak.allocated_bytes, peak.allocated.bytes);
  EXPECT_EQ(device().replay.peak_event, peak.allocated.event);
  EXPECT_EQ(device().replay.peak_reserved_bytes, peak.reserved.bytes);
  EXPECT_EQ(device().replay.peak_reserved_event, peak.reserved.event);
  EXPECT_EQ(device().sources.peak_step, written_->training().second.step);
  EXPECT_EQ(peak.allocated.bytes, written_->training().second.peak.allocated.bytes);
}

TEST_F(LongRunTest, HasTwoStepsThatStandOut) {
  const TrainingSummary& training = written_->training();
  EXPECT_EQ(device().sources.steps.back().step, training.steps);
  EXPECT_EQ(step(training.first.step).peak_bytes, training.first.peak.allocated.bytes);
  EXPECT_EQ(step(training.second.step).peak_bytes, training.second.peak.allocated.bytes);
  for (const StepFigures& each : device().sources.steps) {
    if (each.step == training.first.step || each.step == training.second.step) continue;
    EXPECT_LT(each.peak_bytes, training.first.peak.allocated.bytes);
  }
}

TEST_F(LongRunTest, EvaluatesEvery500Steps) {
  ASSERT_EQ(written_->training().evaluations, 1U);
  std::uint64_t evaluations = 0;
  for (const PhaseFigures& phase : device().sources.phases)
    evaluations += phase.phase == Phase::evaluation ? 1 : 0;
  EXPECT_EQ(evaluations, 1U);
}

TEST_F(LongRunTest, SaysWhatItsMemoryIsFor) {
  const std::uint64_t bytes = written_->run().parameter_bytes;
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
  EXPECT_EQ(growth.grown_bytes, written_->training().leaked_bytes);
  EXPECT_EQ(line_of(growth.line), "train.py:88 log_loss");
  EXPECT_EQ(growth.since_step, kLeakEverySteps);
}

TEST_F(LongRunTest, RunsOutOfMemoryOnceAndGoesOn) {
  ASSERT_EQ(device().ooms.size(), 1U);
  EXPECT_EQ(device().ooms[0].event, written_->training().oom_event);
  EXPECT_EQ(device().ooms[0].cause, OomCause::larger_than_card);
  EXPECT_EQ(device().replay.counters.alloc_retries, 1U);
}

TEST(LongRunFile, HasNoLabelsIfNoneAreWanted) {
  const WrittenRun written(100'000, false);
  const auto recording = Recording::open(written.run().path).value();
  const DeviceOverview device = std::move(recording->overview()).value().devices.at(0);
  EXPECT_FALSE(device.sources.has_labels);
  EXPECT_EQ(device.replay.contradictions, 0U);
  EXPECT_EQ(device.replay.peak_event, written.training().peak.allocated.event);
  EXPECT_EQ(device.sources.steps.back().step, written.training().steps);
}

TEST(LongRunFile, IsTheSameForTheSameSeed) {
  EXPECT_EQ(WrittenRun(20'000).bytes(), WrittenRun(20'000).bytes());
}

}  // namespace
}  // namespace gpumemprof::long_run
