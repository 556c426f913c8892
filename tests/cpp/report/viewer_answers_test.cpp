// Every answer that the viewer's page can get has the shape from which the page's types are made.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "report/answer_shape_check.h"
#include "report/view/answer_shapes.h"
#include "report/view/history_json.h"
#include "report/view/questions.h"
#include "session/view.h"

namespace gpumemprof::view {
namespace {

class ViewerAnswers : public ::testing::TestWithParam<const char*> {
 protected:
  ViewerAnswers() {
    Result<std::shared_ptr<const Recording>> recording =
        Recording::open(std::string(GPUMEMPROF_TEST_DATA "/snapshots/") + GetParam());
    view_ = std::make_unique<View>(std::vector<ViewedRun>{std::move(recording).value()});
  }

  [[nodiscard]] const DeviceView& device() const { return *view_->whole({0, 0}); }

  static void expect_shape(const std::string& json, std::string_view type,
                           const std::string& asked) {
    EXPECT_EQ(misfit(nlohmann::json::parse(json), type), "") << asked;
  }

  void ask(const Question& question) {
    const std::string_view shape =
        std::visit([]<typename Asked>(const Asked&) { return Asked::kAnswer; }, question);
    const Result<std::string> answer = view_->answer(question);
    const std::string asked = question_text(question);
    ASSERT_TRUE(answer.ok()) << asked << answer.error().sentence();
    expect_shape(answer.value(), shape, asked);
    asked_.insert(question.index());
  }

  std::unique_ptr<View> view_;
  std::set<std::size_t> asked_;
};

TEST_P(ViewerAnswers, have_their_declared_shape) {
  const DeviceName name{0, 0};
  const Position last = device().timeline().last_position();
  ask(MetaQuestion{});
  ask(ReportQuestion{0});
  ask(OverlaysQuestion{name});
  ask(SpansQuestion{name, {Axis::event, 0, 0}});
  ask(AllocationsQuestion{name, {}, {}, {}});
  ask(AllocationQuestion{name, 0});
  ask(StepsQuestion{name});
  ask(AdviceQuestion{name, std::nullopt});
  ask(AdviceQuestion{name, std::uint64_t{1} << 30U});
  ask(TogetherQuestion{name, "checkpointing"});
  ask(TogetherQuestion{name, "autocast_bf16+micro_batch_x0.5"});
  ask(TogetherQuestion{name, "no such remedy"});
  ask(RangeQuestion{name, 0, last});
  ask(SettingsQuestion{name});
  ask(RangeQuestion{name, last / 3, last / 2});
  for (const RangePart part : kRangeParts)
    ask(RangeFlameQuestion{name, last / 3, last, part, FlameBy::stack});
  for (const Position position : {Position{0}, last / 2, last}) {
    ask(MomentQuestion{name, position});
    for (const FlameBy by : flame_bys(device().record())) ask(FlameQuestion{name, position, by});
    for (const GroupBy by : device().group_bys()) {
      ask(GroupBytesQuestion{name, position, by});
      ask(SegmentsQuestion{name, position, by});
      ask(CompareQuestion{name, position, name, last, by});
    }
  }
  for (const GroupBy by : device().group_bys()) {
    ask(GroupsQuestion{name, by});
    ask(SinglesQuestion{name, 0, last, by, Axis::event});
    ask(SinglesQuestion{name, last / 4, last, by, Axis::time, 1024, 2});
    ask(TileQuestion{name, by, {Axis::event, 1, 1}});
  }
  EXPECT_EQ(asked_.size(), std::variant_size_v<Question>) << "a question was not asked";
}

TEST_P(ViewerAnswers, of_a_standalone_page_have_their_declared_shape) {
  std::vector<const Grouping*> groupings;
  for (const GroupBy by : device().group_bys()) groupings.push_back(&device().grouped(by).grouping);
  std::vector<FlameTree> flames;
  for (const FlameBy by : flame_bys(device().record()))
    flames.push_back(flame_tree(device().store(), device().record(), by));
  const AllocationSource source{device().store(), device().record(), device().timeline().times()};
  expect_shape(history_json({source, groupings, flames}), "HistoryAnswer", "history");
  const MomentFacts moments[] = {view_->facts({0, 0}, 0).value(), view_->facts({0, 0}, 1).value()};
  expect_shape(known_json(3, moments), "KnownMoments", "known");
  expect_shape(embedded_json(2, {"a sentence"}), "Embedded", "embedded");
}

INSTANTIATE_TEST_SUITE_P(Recordings, ViewerAnswers,
                         ::testing::Values("oom_fragmented.pickle.gz", "cudagraph.pickle.gz",
                                           "mlp_b64_fp32_adam.pickle.gz",
                                           "stress_s_expandable_streams_cap.pickle.gz"));

TEST(AnswerShapes, notice_what_does_not_fit) {
  const auto bad = [](const char* json, std::string_view type) {
    return misfit(nlohmann::json::parse(json), type);
  };
  EXPECT_EQ(bad(R"({"groups":[1,2]})", "GroupBytes"), "");
  EXPECT_EQ(bad(R"({"groups":[1,"2"]})", "GroupBytes"), "$.groups[1]: string is not number");
  EXPECT_EQ(bad(R"({})", "GroupBytes"), "$.groups is missing");
  EXPECT_EQ(bad(R"({"groups":[],"more":1})", "GroupBytes"), "$.more is not declared");
  EXPECT_EQ(bad(R"([["a","b",1]])", "FrameRow[]"),
            "$[0]: array is not [string, string, number, number]");
  EXPECT_EQ(bad(R"("colour")", "GroupBy"), "$: string is not GroupBy");
  EXPECT_EQ(bad(R"({"a":null,"b":3})", "Record<string, number | null>"), "");
}

}  // namespace
}  // namespace gpumemprof::view
