// What takes long to be answered about a run that is too long for memory: ranges that are read
// stretch by stretch, remedies tried on the steps around the peak, and what outlives its stretch.
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>

#include "long_run/long_run.h"
#include "session/excerpt/excerpt.h"
#include "session/forced_window.h"
#include "session/view.h"
#include "trace/writer.h"

namespace gpumemprof {
namespace {

using Json = nlohmann::json;
using namespace view;

constexpr DeviceName kOnlyDevice{0, 0};

// A training run, read whole and through an index.
class LongAnswer : public testing::Test {
 protected:
  void SetUp() override {
    path_ = (std::filesystem::path(testing::TempDir()) /
             (std::to_string(getpid()) + ".long_answer.gmp"))
                .string();
    long_run::LongRunOptions options;
    options.path = path_;
    options.events = 60'000;
    options.flush_every = 1'000;
    ASSERT_TRUE(long_run::make_long_run(options));
    whole_ = std::make_unique<View>(std::vector<ViewedRun>{Recording::open(path_).value()});
    ::setenv("GPUMEMPROF_WINDOW_EVENTS", "5000", 1);
    Result<ViewedRun> run = open_viewed_run(path_);
    ::unsetenv("GPUMEMPROF_WINDOW_EVENTS");
    ASSERT_TRUE(run) << run.error().sentence();
    ASSERT_NE(run.value().indexed, nullptr);
    indexed_ = std::make_unique<View>(std::vector<ViewedRun>{std::move(run).value()});
  }
  void TearDown() override { std::filesystem::remove(path_); }

  [[nodiscard]] const LongDevice& device() const { return *indexed_->indexed(kOnlyDevice); }
  [[nodiscard]] Position last() const { return device().last_position(); }
  static Json ask(const View& view, const Question& question) {
    const Result<std::string> answer = view.answer(question);
    EXPECT_TRUE(answer) << question_text(question) << ": " << answer.error().sentence();
    return answer ? Json::parse(answer.value()) : Json();
  }
  void expect_same(const Question& question) const {
    EXPECT_EQ(ask(*indexed_, question), ask(*whole_, question)) << question_text(question);
  }

  std::string path_;
  std::unique_ptr<View> whole_;
  std::unique_ptr<View> indexed_;
};

// One that is read stretch by stretch.
TEST_F(LongAnswer, SaysWhatHappenedInALongRange) {
  for (const auto& [from, to] : std::vector<std::pair<Position, Position>>{
           {0, last()}, {1'234, last() - 777}, {4'999, 45'001}, {10'000, 50'000}}) {
    ASSERT_FALSE(device().over(from, to + 1)) << "it is read at once";
    expect_same(RangeQuestion{kOnlyDevice, from, to});
    for (const FlameBy by : {FlameBy::stack, FlameBy::module}) {
      for (const RangePart part : kRangeParts)
        expect_same(RangeFlameQuestion{kOnlyDevice, from, to, part, by});
    }
  }
}

TEST_F(LongAnswer, ShowsWhatSurvivedALongRangeBeforeItIsRead) {
  LongWork work;
  const RangeQuestion question{kOnlyDevice, 1'234, last() - 777};
  EXPECT_TRUE(indexed_->takes_long(AdviceQuestion{kOnlyDevice, {}}));
  const Result<std::string> answer = indexed_->answer(question, &work);
  ASSERT_TRUE(answer);
  const Json truth = Json::parse(answer.value());
  const LongWork::Progress progress = work.progress();
  EXPECT_GT(progress.total, 6U);
  const Json known = Json::parse(progress.so_far);
  EXPECT_EQ(known["survived_bytes"], truth["all"]["survived_bytes"]);
  EXPECT_EQ(known["survived_blocks"], truth["all"]["survived_blocks"]);
  EXPECT_EQ(known["to_bytes"], truth["to_bytes"]);
  std::map<std::string, Json> lines;
  for (const Json& line : truth["lines"]) lines[line["label"]] = line["survived_bytes"];
  for (const Json& line : known["lines"]) EXPECT_EQ(lines[line["label"]], line["bytes"]);
  LongWork given_up;
  given_up.give_up();
  EXPECT_FALSE(indexed_->answer(question, &given_up));
}

// As `advise` and `simulate` do, which read the file themselves.
TEST_F(LongAnswer, TriesRemediesOnTheStepsAroundThePeak) {
  const DeviceIndex number = device().overview().device;
  Result<std::shared_ptr<const Recording>> part =
      open_excerpt(indexed_->path(0), {AskedPart::Kind::peak, 0, 0, number});
  ASSERT_TRUE(part);
  const DeviceAdvice advice(number, [&] { return part; });
  const Store& store = part.value()->store();
  for (const std::optional<std::uint64_t> fit :
       {std::optional<std::uint64_t>(), std::optional<std::uint64_t>(1U << 30U)}) {
    EXPECT_EQ(ask(*indexed_, AdviceQuestion{kOnlyDevice, fit}),
              Json::parse(advice_answer_json(advice.advice(fit), store)));
  }
  const ExcerptRange range = *store.facts().device(number).excerpt;
  const Json together = ask(*indexed_, TogetherQuestion{kOnlyDevice, "checkpointing"});
  EXPECT_EQ(together, Json::parse(together_answer_json(advice.together("checkpointing"))));
  ASSERT_FALSE(together["most_bytes"].empty()) << together.dump();
  EXPECT_EQ(together["first_event"], range.from);
  const auto per_point = together["events_per_point"].get<std::uint64_t>();
  const std::uint64_t events = range.to - range.from;
  EXPECT_EQ(together["most_bytes"].size(), (events + per_point - 1) / per_point);
  std::int64_t level = 0;
  std::int64_t most = 0;
  for (const Json& difference : together["most_bytes"])
    most = std::max(most, level += difference.get<std::int64_t>());
  EXPECT_EQ(most, together["remedy"]["predicted_peak_allocated_bytes"]);
  const Json settings = ask(*indexed_, SettingsQuestion{kOnlyDevice});
  EXPECT_TRUE(settings["why_not"].is_null()) << settings.dump();
  EXPECT_EQ(settings["part"]["from_event"], range.from);
  EXPECT_EQ(settings["part"]["to_event"], range.to);
}

// The part of the run in which the allocation is made then has no times.
TEST(LongAnswerWithoutATime, ShowsWhatOutlivesItsPart) {
  const std::string path = testing::TempDir() + std::to_string(getpid()) + ".without_a_time.gmp";
  TraceOptions options;
  options.existing = FileSink::Existing::replace;
  Origin origin;
  origin.has_start = origin.has_traces = true;
  const auto writer = TraceWriter::open(path, origin, AllocatorSettings(), options);
  ASSERT_TRUE(writer);
  constexpr std::uint32_t kEvents = 6'001;
  constexpr Action kActions[] = {Action::free_completed, Action::alloc, Action::free_requested};
  for (std::uint32_t row = 0; row < kEvents; ++row) {
    Event event;
    event.action = row == 0 ? Action::alloc : kActions[row % 3];
    event.address = row == 0 ? 512 : 1024;
    event.size_bytes = 512;
    event.time_ns = row == 10 ? kUnknownTime : std::int64_t{row} * 1000;
    EventColumns events;
    events.push_back(event);
    writer.value()->add_events(0, std::move(events));
    if (row % 1000 != 999) continue;
    // A part may begin where a recorder wrote its sample.
    DeviceSample sample;
    sample.before_event = row + 1;
    writer.value()->add_sample(sample);
    (void)writer.value()->flush();
  }
  ASSERT_TRUE(writer.value()->close("exit 0"));

  const ForcedWindow forced(1'000);
  Result<ViewedRun> run = open_viewed_run(path);
  ASSERT_TRUE(run) << run.error().sentence();
  ASSERT_NE(run.value().indexed, nullptr);
  const View view({std::move(run).value()});
  ASSERT_TRUE(view.scale(kOnlyDevice).has_times());
  ASSERT_GT(view.indexed(kOnlyDevice)->at(kEvents).value()->first_event(), 10U);
  const Result<std::string> answer = view.answer(AllocationQuestion{kOnlyDevice, 1});
  ASSERT_TRUE(answer) << answer.error().sentence();
  EXPECT_EQ(Json::parse(answer.value())["lifetime"], kEvents - 1);
  std::filesystem::remove(path);
}

}  // namespace
}  // namespace gpumemprof
