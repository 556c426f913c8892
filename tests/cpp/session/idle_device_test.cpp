// A device that is known but has no event, beside one that works: a report and the page of a run
// that is too long for memory say what those of the run read whole say.
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>

#include "report/json/overview_json.h"
#include "session/forced_window.h"
#include "session/html/view_html.h"
#include "session/reported_run.h"
#include "session/view.h"
#include "trace/writer.h"

namespace gpumemprof {
namespace {

constexpr DeviceIndex kBusy = 0;
constexpr DeviceIndex kIdle = 1;
constexpr std::uint64_t kBase = std::uint64_t{1} << 40U;
constexpr std::uint64_t kMiB = std::uint64_t{1} << 20U;

void add_start(EventSink& sink, DeviceIndex device, BlockStateKind state) {
  SegmentState segment;
  segment.device = device;
  segment.address = kBase;
  segment.size_bytes = 20 * kMiB;
  segment.stream = sink.add_stream(0);
  const std::vector<BlockState> blocks = {
      {kBase, kMiB, kMiB, state, StackId()},
      {kBase + kMiB, 19 * kMiB, 0, BlockStateKind::inactive, StackId()}};
  sink.add_segment(StateEdge::start, segment, blocks);
}

// What is known of the idle device, by what says it.
const std::map<std::string, std::function<void(EventSink&)>> kSaid = {
    {"waiting_block",
     [](EventSink& sink) { add_start(sink, kIdle, BlockStateKind::active_pending_free); }},
    {"live_block",
     [](EventSink& sink) { add_start(sink, kIdle, BlockStateKind::active_allocated); }},
    {"mark_at_the_start",
     [](EventSink& sink) { sink.add_phase_mark({kIdle, PhaseMark::Kind::optimizer_start, 0, 0}); }},
    {"mark",
     [](EventSink& sink) { sink.add_phase_mark({kIdle, PhaseMark::Kind::optimizer_start, 0, 5}); }},
    {"labelling",
     [](EventSink& sink) {
       const std::vector<Label> labels = {{LabelKind::parameter, kBase, sink.add_string("weight")}};
       sink.add_labelling({kIdle, sink.add_label_set(labels), 1});
     }},
    {"lost_events",
     [](EventSink& sink) {
       LostEvents lost;
       lost.device = kIdle;
       lost.before_event = 1;
       lost.count = 17;
       sink.add_lost_events(lost);
     }},
    {"sample",
     [](EventSink& sink) {
       DeviceSample sample;
       sample.device = kIdle;
       sample.time_ns = 1000;
       sample.total_bytes = std::uint64_t{80} << 30U;
       sample.used_bytes = std::uint64_t{1} << 30U;
       sample.before_event = 3;
       sink.add_sample(sample);
     }},
};

void add_work(EventSink& sink) {
  EventColumns events;
  const auto add = [&](Action action, std::uint64_t address) {
    Event event;
    event.action = action;
    event.address = address;
    event.size_bytes = kMiB;
    event.time_ns = static_cast<std::int64_t>(events.size()) * 1000;
    events.push_back(event);
  };
  for (int round = 0; round < 200; ++round) {
    for (const Action action : {Action::alloc, Action::free_requested, Action::free_completed})
      add(action, kBase + (2 * kMiB));
  }
  sink.add_events(kBusy, std::move(events));
}

std::string difference(const std::string& found, const std::string& expected) {
  return nlohmann::json::diff(nlohmann::json::parse(expected), nlohmann::json::parse(found)).dump();
}

class IdleDevice : public testing::TestWithParam<std::string> {
 protected:
  void SetUp() override {
    TraceOptions options;
    options.existing = FileSink::Existing::replace;
    Origin origin;
    origin.kind = "gpumemprof";
    origin.device_type = "cuda";
    origin.has_start = origin.has_traces = true;
    const auto writer = TraceWriter::open(path_, origin, AllocatorSettings(), options);
    ASSERT_TRUE(writer);
    add_start(*writer.value(), kBusy, BlockStateKind::active_allocated);
    kSaid.at(GetParam())(*writer.value());
    add_work(*writer.value());
    ASSERT_TRUE(writer.value()->close("exit 0"));
  }
  void TearDown() override { std::filesystem::remove(path_); }

  const std::string path_ = testing::TempDir() + std::to_string(::getpid()) + ".idle_device.gmp";
  const ForcedWindow window_{50};
};

TEST_P(IdleDevice, has_the_report_of_the_whole_run) {
  const Result<std::shared_ptr<const Recording>> whole = Recording::open(path_);
  ASSERT_TRUE(whole);
  const Result<std::unique_ptr<ReportedRun>> windowed = ReportedRun::open(path_);
  ASSERT_TRUE(windowed) << windowed.error().sentence();
  ASSERT_EQ(windowed.value()->whole(), nullptr);
  for (const AskedMoment at : {AskedMoment{}, AskedMoment{AskedMoment::Kind::end, 0}}) {
    const Result<Overview> found = windowed.value()->overview({at, {}});
    ASSERT_TRUE(found) << found.error().sentence();
    EXPECT_EQ(difference(overview_json(found.value(), windowed.value()->store(), kAllGroups),
                         overview_json(whole.value()->overview({at, {}}).value(),
                                       whole.value()->store(), kAllGroups)),
              "[]");
  }
}

TEST_P(IdleDevice, is_viewed_like_the_whole_run) {
  Result<ViewedRun> opened = open_viewed_run(path_);
  ASSERT_TRUE(opened) << opened.error().sentence();
  const View long_view({std::move(opened).value()});
  const View whole_view({Recording::open(path_).value()});
  ASSERT_EQ(long_view.device_count(0), whole_view.device_count(0));
  for (std::size_t device = 0; device < whole_view.device_count(0); ++device) {
    const DeviceName name{0, device};
    const auto last = static_cast<Position>(whole_view.scale(name).positions - 1);
    for (const Position position : {Position{0}, last}) {
      for (const view::Question& question : {view::Question(view::MomentQuestion{name, position}),
                                             view::Question(view::FlameQuestion{name, position}),
                                             view::Question(view::OverlaysQuestion{name})}) {
        const Result<std::string> answer = long_view.answer(question);
        ASSERT_TRUE(answer) << view::question_text(question) << ": " << answer.error().sentence();
        EXPECT_EQ(difference(answer.value(), whole_view.answer(question).value()), "[]")
            << view::question_text(question);
      }
      // Their rows are numbered otherwise.
      for (const view::Question& question :
           {view::Question(view::SegmentsQuestion{name, position}),
            view::Question(view::AllocationsQuestion{name, {}, {}, {}}),
            view::Question(view::SinglesQuestion{name, 0, last}),
            view::Question(view::RangeQuestion{name, 0, last}),
            view::Question(view::StepsQuestion{name}),
            view::Question(view::TileQuestion{name, GroupBy::line, {}})})
        EXPECT_TRUE(long_view.answer(question)) << view::question_text(question);
    }
  }
  EXPECT_TRUE(write_view_html(long_view, "<!doctype html><title>x</title><!--data-->"));
}

INSTANTIATE_TEST_SUITE_P(Said, IdleDevice, testing::ValuesIn([] {
                           std::vector<std::string> names;
                           for (const auto& [name, say] : kSaid) names.push_back(name);
                           return names;
                         }()),
                         [](const auto& parameter) { return parameter.param; });

}  // namespace
}  // namespace gpumemprof
