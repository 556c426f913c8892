// The timeline's index agrees with a scan of all lifetimes.
#include "analysis/timeline/timeline.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <tuple>

#include "analysis/random_history.h"
#include "analysis/timeline/grouping.h"
#include "analysis/timeline/spans.h"

namespace gpumemprof {
namespace {

class TimelineOfRandomHistory : public ::testing::TestWithParam<unsigned> {
 protected:
  RandomHistory history_{GetParam()};
  const DeviceRecord& record_ = *history_.record;
};

TEST_P(TimelineOfRandomHistory, bytes_after_every_event_equal_a_scan) {
  const LiveChanges changes(allocated_lifetimes(record_), record_.events.size());
  for (Position position = 0; position <= changes.last_position(); ++position)
    ASSERT_EQ(changes.bytes_at(position), history_.allocated_at(moment_of(position))) << position;
}

TEST_P(TimelineOfRandomHistory, the_least_and_the_most_of_any_range_equal_a_scan) {
  const LiveChanges changes(allocated_lifetimes(record_), record_.events.size());
  std::vector<std::uint64_t> bytes;
  for (Position position = 0; position <= changes.last_position(); ++position)
    bytes.push_back(history_.allocated_at(moment_of(position)));
  std::mt19937 random(GetParam());
  for (int turn = 0; turn < 500; ++turn) {
    const auto from = static_cast<Position>(random() % bytes.size());
    const auto to = from + 1 + static_cast<Position>(random() % (bytes.size() - from));
    const LiveRange range = changes.range(from, to);
    const auto first = bytes.begin() + from;
    const auto last = bytes.begin() + to;
    ASSERT_EQ(range.min_bytes, *std::min_element(first, last));
    ASSERT_EQ(range.max_bytes, *std::max_element(first, last));
    ASSERT_EQ(range.max_position, std::max_element(first, last) - bytes.begin());
  }
}

TEST_P(TimelineOfRandomHistory, groups_of_every_bucket_add_up_to_its_maximum) {
  const Timeline timeline(record_);
  for (const GroupBy by : kGroupBys) {
    const Grouping grouping =
        make_grouping(history_.store, record_, history_.replay.peak_event, by);
    ASSERT_LE(grouping.groups.size(), Grouping::kMostGroups);
    const GroupSums sums(grouping, timeline.allocated(), record_.allocations);
    for (const Axis axis : {Axis::event, Axis::time}) {
      for (std::uint32_t level = 0; level <= std::min(2U, timeline.deepest_level()); ++level) {
        for (std::uint32_t index = 0; index < (1U << level); ++index) {
          const Result<Tile> tile = timeline.tile({axis, level, index}, sums);
          ASSERT_TRUE(tile);
          for (std::size_t bucket = 0; bucket < Timeline::kTileBuckets; ++bucket) {
            std::uint64_t sum = 0;
            for (const auto& group : tile.value().group_bytes) sum += group[bucket];
            ASSERT_EQ(sum, tile.value().max_bytes[bucket]);
            ASSERT_EQ(sum, history_.allocated_at(moment_of(tile.value().max_position[bucket])));
            ASSERT_LE(tile.value().min_bytes[bucket], sum);
          }
        }
      }
    }
  }
}

TEST_P(TimelineOfRandomHistory, every_level_has_the_peak) {
  const Timeline timeline(record_);
  const Grouping grouping =
      make_grouping(history_.store, record_, history_.replay.peak_event, GroupBy::line);
  const GroupSums sums(grouping, timeline.allocated(), record_.allocations);
  for (const Axis axis : {Axis::event, Axis::time}) {
    for (std::uint32_t level = 0; level <= 3; ++level) {
      std::uint64_t most = 0;
      for (std::uint32_t index = 0; index < (1U << level); ++index) {
        const Result<Tile> tile = timeline.tile({axis, level, index}, sums);
        ASSERT_TRUE(tile);
        for (const std::uint64_t bytes : tile.value().max_bytes) most = std::max(most, bytes);
      }
      EXPECT_EQ(most, history_.replay.peak.allocated_bytes);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(seeds, TimelineOfRandomHistory, ::testing::Values(1U, 2U, 3U));

TEST(Timeline, a_tile_that_is_not_there_is_an_error) {
  const RandomHistory history(4);
  const Timeline timeline(*history.record);
  const Grouping grouping = make_grouping(history.store, *history.record, 0, GroupBy::size);
  const GroupSums sums(grouping, timeline.allocated(), history.record->allocations);
  EXPECT_FALSE(timeline.tile({Axis::event, 1, 2}, sums));
  EXPECT_FALSE(timeline.tile({Axis::event, 60, 0}, sums));
}

TEST(Timeline, a_recording_without_times_has_an_axis_of_events_alone) {
  RandomHistory history(5);
  history.record->events.time_ns[7] = kUnknownTime;
  const Timeline timeline(*history.record);
  const Grouping grouping = make_grouping(history.store, *history.record, 0, GroupBy::size);
  const GroupSums sums(grouping, timeline.allocated(), history.record->allocations);
  EXPECT_FALSE(timeline.times().is_known());
  EXPECT_TRUE(timeline.tile({Axis::event, 0, 0}, sums));
  EXPECT_FALSE(timeline.tile({Axis::time, 0, 0}, sums));
}

TEST(Timeline, times_that_go_back_are_held_where_they_were) {
  RandomHistory history(6);
  history.record->events.time_ns[10] = 0;
  const EventTimes times(history.record->events);
  ASSERT_TRUE(times.is_known());
  EXPECT_EQ(times.of_event(10), times.of_event(9));
  EXPECT_EQ(times.position_before(times.first_ns()), 0U);
  EXPECT_EQ(times.position_before(times.last_ns() + 1), history.record->events.size());
}

TEST(Timeline, a_recording_without_events_has_one_position) {
  Store store;
  store.add_events(0, EventColumns());
  const Timeline timeline(*store.devices().front());
  EXPECT_EQ(timeline.last_position(), 0U);
  EXPECT_EQ(timeline.allocated().bytes_at(0), 0U);
  EXPECT_FALSE(timeline.times().is_known());
}

TEST(Grouping, sizes_fall_into_classes_of_four_times_the_one_before) {
  EXPECT_EQ(size_class_name(size_class(1)), "up to 512 B");
  EXPECT_EQ(size_class_name(size_class(512)), "up to 512 B");
  EXPECT_EQ(size_class_name(size_class(513)), "up to 2.00 KiB");
  EXPECT_EQ(size_class_name(size_class(2048)), "up to 2.00 KiB");
  EXPECT_EQ(size_class_name(size_class(2049)), "up to 8.00 KiB");
  EXPECT_EQ(size_class_name(size_class(~std::uint64_t{0})), "larger");
}

std::vector<DrawnSpan> spans_of(const Spans& spans, const TileAddress& address) {
  Result<SpanTile> tile = spans.tile(address);
  EXPECT_TRUE(tile);
  return tile ? tile.value().spans : std::vector<DrawnSpan>();
}

TEST(Spans, annotations_are_paired_by_name_and_nested) {
  RandomHistory history(7);
  const Timeline timeline(*history.record);
  const EventTimes& times = timeline.times();
  const std::int64_t whole = times.last_ns() - times.first_ns();
  const auto mark = [&](const char* name, Annotation::Stage stage, std::int64_t percent) {
    history.store.add_annotation(
        {history.store.add_string(name), stage, 0, times.first_ns() + whole * percent / 100});
  };
  mark("outer", Annotation::Stage::start, 10);
  mark("inner", Annotation::Stage::start, 20);
  mark("inner", Annotation::Stage::end, 30);
  mark("outer", Annotation::Stage::end, 40);
  mark("never opened", Annotation::Stage::end, 50);
  mark("never closed", Annotation::Stage::start, 60);
  const Spans spans(history.store, *history.record, {}, timeline);
  const std::vector<DrawnSpan> drawn = spans_of(spans, {Axis::time, 0, 0});
  ASSERT_EQ(drawn.size(), 3U);
  EXPECT_EQ(drawn[0].name, "outer");
  EXPECT_EQ(drawn[0].to_ns - drawn[0].from_ns, whole * 40 / 100 - whole * 10 / 100);
  EXPECT_EQ(drawn[1].name, "never closed");
  EXPECT_EQ(drawn[1].to_ns, times.last_ns());
  EXPECT_EQ(drawn[2].name, "inner");
  EXPECT_EQ(drawn[2].lane, 1U);
}

TEST(Spans, steps_and_phases_lie_above_annotations) {
  const RandomHistory history(8);
  const Timeline timeline(*history.record);
  const std::vector<PhaseSpan> phases = {{0, Phase::other, 0},
                                         {10, Phase::backward, 1},
                                         {200, Phase::other, 1},
                                         {400, Phase::optimizer_step, 1},
                                         {600, Phase::backward, 2}};
  const Spans spans(history.store, *history.record, phases, timeline);
  EXPECT_EQ(spans.lane_count(), 2U);
  const std::vector<DrawnSpan> drawn = spans_of(spans, {Axis::event, 0, 0});
  ASSERT_EQ(drawn.size(), 5U);
  EXPECT_EQ(drawn[0].name, "step 1");
  EXPECT_EQ(drawn[0].from, 10U);
  EXPECT_EQ(drawn[0].to, 600U);
  EXPECT_EQ(drawn[3].name, "optimizer step");
  EXPECT_EQ(drawn[4].to, history.record->events.size());
}

TEST(Spans, evaluation_behind_a_step_lies_between_steps) {
  const RandomHistory history(8);
  const Timeline timeline(*history.record);
  const std::vector<PhaseSpan> phases = {{0, Phase::backward, 1}, {100, Phase::optimizer_step, 1},
                                         {200, Phase::other, 1},  {250, Phase::evaluation, 1},
                                         {350, Phase::other, 1},  {400, Phase::backward, 2}};
  const Spans spans(history.store, *history.record, phases, timeline);
  std::vector<DrawnSpan> first;
  for (const DrawnSpan& span : spans_of(spans, {Axis::event, 0, 0}))
    if (span.lane == 0) first.push_back(span);
  ASSERT_EQ(first.size(), 3U);
  EXPECT_EQ(first[0].name, "step 1");
  EXPECT_EQ(first[0].to, 250U);
  EXPECT_EQ(first[1].kind, SpanKind::evaluation);
  EXPECT_EQ(first[1].from, 250U);
  EXPECT_EQ(first[1].to, 350U);
  EXPECT_EQ(first[2].name, "step 2");
}

TEST(Spans, a_run_without_backward_has_no_steps) {
  const RandomHistory history(8);
  const Timeline timeline(*history.record);
  const Spans spans(history.store, *history.record, {{0, Phase::other, 0}, {10, Phase::forward, 1}},
                    timeline);
  const std::vector<DrawnSpan> drawn = spans_of(spans, {Axis::event, 0, 0});
  ASSERT_EQ(drawn.size(), 1U);
  EXPECT_EQ(drawn[0].name, "forward");
}

// Every span, however many there are: at each level they are all counted, and at the deepest level
// each is drawn by itself.
TEST(Spans, none_is_left_out_at_any_level) {
  constexpr std::uint32_t kEvents = 40'000;
  constexpr std::uint32_t kEventsOfStep = 4;
  const RandomHistory history(9, kEvents);
  const Timeline timeline(*history.record);
  std::vector<PhaseSpan> phases;
  for (std::uint32_t event = 0; event < kEvents; event += kEventsOfStep)
    phases.push_back({event, Phase::backward, event / kEventsOfStep + 1});
  const Spans spans(history.store, *history.record, phases, timeline);
  const std::uint64_t all = 2 * std::uint64_t{kEvents} / kEventsOfStep;
  EXPECT_EQ(spans.span_count(), all);
  for (const Axis axis : {Axis::event, Axis::time}) {
    for (const std::uint32_t level : {0U, 3U, timeline.deepest_level()}) {
      if (level > 7 && axis == Axis::time) continue;
      std::uint64_t found = 0;
      std::uint64_t merged = 0;
      std::set<std::tuple<std::uint32_t, Position>> wide;  // repeated in each tile it extends into
      for (std::uint32_t index = 0; index < (1U << level); ++index) {
        for (const DrawnSpan& span : spans_of(spans, {axis, level, index})) {
          if (span.count > 1) ++merged;
          if (span.count > 1 || wide.insert({span.lane, span.from}).second) found += span.count;
        }
      }
      EXPECT_EQ(found, all) << level;
      if (level == 0) {
        EXPECT_GT(merged, 0U);
      }
      if (level == timeline.deepest_level() && axis == Axis::event) {
        EXPECT_EQ(merged, 0U);
      }
    }
  }
}

TEST(Spans, a_merged_span_names_its_first_and_last) {
  const RandomHistory history(10);
  const Timeline timeline(*history.record);
  std::vector<PhaseSpan> phases;
  for (std::uint32_t event = 0; event < 900; ++event)
    phases.push_back({event, Phase::backward, event + 1});
  const Spans spans(history.store, *history.record, phases, timeline);
  const std::vector<DrawnSpan> drawn = spans_of(spans, {Axis::event, 0, 0});
  ASSERT_EQ(drawn.size(), 2U);
  EXPECT_EQ(drawn[0].name, "step 1");
  EXPECT_EQ(drawn[0].last_name, "step 900");
  EXPECT_EQ(drawn[0].count, 900U);
}

TEST(Spans, a_tile_that_is_not_there_is_an_error) {
  const RandomHistory history(4);
  const Timeline timeline(*history.record);
  const Spans spans(history.store, *history.record, {}, timeline);
  EXPECT_FALSE(spans.tile({Axis::event, 1, 2}));
  EXPECT_FALSE(spans.tile({Axis::event, 60, 0}));
}

}  // namespace
}  // namespace gpumemprof
