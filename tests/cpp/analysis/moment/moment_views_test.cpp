// What is live at a moment, as the viewer shows it: rows, flame graph, segment map, table, compare.
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <set>

#include "analysis/compare/compare.h"
#include "analysis/moment/flame.h"
#include "analysis/moment/live_rows.h"
#include "analysis/peak/live_set.h"
#include "analysis/random_history.h"
#include "analysis/table/allocation_query.h"
#include "analysis/table/bands.h"
#include "analysis/timeline/grouping.h"
#include "base/bytes.h"

namespace gpumemprof {
namespace {

class MomentOfRandomHistory : public ::testing::TestWithParam<unsigned> {
 protected:
  RandomHistory history_{GetParam(), 400};
  const DeviceRecord& record_ = *history_.record;
  const AllocationColumns& rows_ = record_.allocations;
  LiveRows live_{record_};
};

TEST_P(MomentOfRandomHistory, active_rows_equal_a_scan) {
  for (Position position = 0; position <= record_.events.size(); ++position) {
    std::vector<AllocationId> expected;
    for (std::size_t row = 0; row < rows_.size(); ++row) {
      if (rows_.is_active_at(row, moment_of(position))) expected.emplace_back(row);
    }
    ASSERT_EQ(live_.active_at(position), expected);
  }
}

TEST_P(MomentOfRandomHistory, a_flame_graph_holds_what_is_live_by_stack) {
  FlameOptions options;
  for (const Position position : {Position{0}, Position{100}, Position{399}}) {
    const Flame flame = flame_at(history_.store, record_, live_, position, options);
    const LiveSet live = live_at(record_, moment_of(position));
    EXPECT_EQ(flame.allocated_bytes, live.allocated_bytes);
    std::uint64_t roots = 0;
    std::uint64_t own = 0;
    for (const FlameNode& node : flame.nodes) {
      own += node.self_bytes;
      if (node.parent == FlameNode::kNoParent) roots += node.bytes;
      if (node.parent != FlameNode::kNoParent) {
        EXPECT_LE(node.bytes, flame.nodes[node.parent].bytes);
      }
    }
    EXPECT_EQ(roots, live.allocated_bytes);
    if (flame.nodes_left_out == 0) {
      EXPECT_EQ(own, live.allocated_bytes);
    }
    options.by = FlameBy::module;
  }
}

TEST_P(MomentOfRandomHistory, a_page_of_the_table_equals_a_sort_of_everything) {
  const EventTimes times(record_.events);
  for (const AllocationOrder order : {AllocationOrder::size, AllocationOrder::birth,
                                      AllocationOrder::lifetime, AllocationOrder::rounding}) {
    AllocationQuery query;
    query.order = order;
    query.limit = 1'000'000;
    const std::vector<AllocationId> all =
        find_allocations(history_.store, record_, times, query).rows;
    ASSERT_EQ(all.size(), rows_.size());
    query.offset = 37;
    query.limit = 20;
    const std::vector<AllocationId> page =
        find_allocations(history_.store, record_, times, query).rows;
    EXPECT_EQ(page, std::vector(all.begin() + 37, all.begin() + 57));
  }
}

TEST_P(MomentOfRandomHistory, filters_keep_exactly_what_they_say) {
  const EventTimes times(record_.events);
  AllocationQuery query;
  query.limit = 1'000'000;
  query.filter.min_size_bytes = 1024;
  query.filter.max_size_bytes = 4096;
  query.filter.live_at = 200;
  query.filter.words = "TRAIN case";
  const AllocationPage page = find_allocations(history_.store, record_, times, query);
  std::uint64_t matches = 0;
  for (std::size_t row = 0; row < rows_.size(); ++row) {
    bool has_train = false;
    bool has_case = false;
    for (StackId part = rows_.stack[row]; !part.is_none();
         part = history_.store.stacks().caller(part)) {
      const Frame& frame = history_.store.frame(history_.store.stacks().frame(part));
      const std::string text = std::string(history_.store.text(frame.name)) + "\n" +
                               std::string(history_.store.text(frame.file));
      has_train |= text.find("train") != std::string::npos;
      has_case |= text.find("case") != std::string::npos;
    }
    const bool expected = rows_.size_bytes[row] >= 1024 && rows_.size_bytes[row] <= 4096 &&
                          rows_.is_allocated_at(row, moment_of(200)) && has_train && has_case;
    const bool is_there =
        std::find(page.rows.begin(), page.rows.end(), AllocationId(row)) != page.rows.end();
    ASSERT_EQ(is_there, expected);
    matches += expected ? 1 : 0;
  }
  EXPECT_EQ(page.matches, matches);
}

TEST_P(MomentOfRandomHistory, bands_are_the_largest_of_those_in_sight) {
  const AllocationPage page = largest_bands(record_, 100, 200, 10);
  const std::vector<AllocationId>& bands = page.rows;
  ASSERT_EQ(bands.size(), 10U);
  const auto area = [&](std::size_t row) {
    const Position birth = std::max<Position>(100, birth_position(rows_.alloc_event[row]));
    const std::uint32_t freed = rows_.free_requested_event[row];
    const Position death = freed == kNoEvent ? 200 : std::min<Position>(200, freed + 1);
    return birth < death ? rows_.size_bytes[row] * (death - birth) : 0;
  };
  std::uint64_t least = ~std::uint64_t{0};
  for (const AllocationId row : bands) least = std::min(least, area(row.index));
  std::size_t larger = 0;
  for (std::size_t row = 0; row < rows_.size(); ++row) larger += area(row) > least ? 1U : 0U;
  EXPECT_LT(larger, 10U);
  EXPECT_TRUE(std::is_sorted(bands.begin(), bands.end()));
  std::uint64_t alive = 0;
  std::uint64_t bytes = 0;
  for (std::size_t row = 0; row < rows_.size(); ++row) {
    if (area(row) == 0) continue;
    ++alive;
    bytes += rows_.size_bytes[row];
  }
  EXPECT_EQ(page.matches, alive);
  EXPECT_EQ(page.matching_bytes, bytes);
}

TEST_P(MomentOfRandomHistory, a_flame_tree_adds_up_to_the_flame_graph_of_any_moment) {
  for (const FlameBy by : kFlameBys) {
    const FlameTree tree = flame_tree(history_.store, record_, by);
    ASSERT_EQ(tree.node_of_allocation.size(), rows_.size());
    FlameOptions options;
    options.by = by;
    for (const Position position : {Position{0}, Position{100}, Position{399}}) {
      std::vector<std::uint64_t> bytes(tree.nodes.size(), 0);
      for (std::size_t row = 0; row < rows_.size(); ++row) {
        if (rows_.is_allocated_at(row, moment_of(position)))
          bytes[tree.node_of_allocation[row]] += rows_.size_bytes[row];
      }
      std::multiset<std::uint64_t> expected;
      for (std::size_t node = tree.nodes.size(); node-- > 0;) {
        if (bytes[node] > 0) expected.insert(bytes[node]);
        if (tree.nodes[node].parent != FlameNode::kNoParent)
          bytes[tree.nodes[node].parent] += bytes[node];
      }
      std::multiset<std::uint64_t> found;
      const Flame flame = flame_at(history_.store, record_, live_, position, options);
      for (const FlameNode& node : flame.nodes) found.insert(node.bytes);
      EXPECT_EQ(flame.nodes_left_out, 0U);
      EXPECT_EQ(found, expected);
    }
  }
}

TEST_P(MomentOfRandomHistory, a_moment_compared_with_itself_has_no_differences) {
  const ComparedSide side{&history_.store, &record_, &live_, 200};
  for (const GroupBy by : kGroupBys) {
    const Comparison comparison = compare(side, side, by);
    std::uint64_t sum = 0;
    for (const ComparedGroup& group : comparison.groups) {
      EXPECT_EQ(group.first_bytes, group.second_bytes);
      EXPECT_EQ(group.first_blocks, group.second_blocks);
      sum += group.first_bytes;
    }
    EXPECT_EQ(sum, comparison.first_bytes);
    EXPECT_EQ(sum, history_.allocated_at(moment_of(200)));
  }
}

INSTANTIATE_TEST_SUITE_P(seeds, MomentOfRandomHistory, ::testing::Values(11U, 12U, 13U));

TEST(LiveRows, rows_that_are_not_in_order_of_birth_are_found_all_the_same) {
  RandomHistory history(21, 300);
  AllocationColumns& rows = history.record->allocations;
  std::swap(rows.alloc_event[60], rows.alloc_event[90]);
  std::swap(rows.free_requested_event[60], rows.free_requested_event[90]);
  std::swap(rows.free_completed_event[60], rows.free_completed_event[90]);
  const LiveRows live(*history.record);
  for (Position position = 0; position <= 300; ++position) {
    std::size_t expected = 0;
    for (std::size_t row = 0; row < rows.size(); ++row)
      expected += rows.is_active_at(row, moment_of(position)) ? 1U : 0U;
    ASSERT_EQ(live.active_at(position).size(), expected);
  }
}

TEST(LiveRows, long_histories_are_answered_from_lists) {
  RandomHistory history(22, 100'000);
  const LiveRows live(*history.record);
  const AllocationColumns& rows = history.record->allocations;
  for (const Position position :
       {Position{0}, Position{32'768}, Position{50'001}, Position{99'999}}) {
    std::vector<AllocationId> expected;
    for (std::size_t row = 0; row < rows.size(); ++row) {
      if (rows.is_active_at(row, moment_of(position))) expected.emplace_back(row);
    }
    EXPECT_EQ(live.active_at(position), expected);
  }
}

// One live allocation for each line; what comes before it shifts its ids.
struct OneMoment {
  explicit OneMoment(const std::vector<std::uint32_t>& lines, bool has_other_ids) {
    if (has_other_ids) frame("something else", 1);
    store.add_events(0, EventColumns());
    record = store.devices().front().get();
    for (const std::uint32_t line : lines) {
      AllocationColumns& rows = record->allocations;
      rows.address.push_back(0x1000 * (rows.size() + 1));
      rows.size_bytes.push_back(512);
      rows.requested_bytes.push_back(512);
      rows.alloc_event.push_back(kNoEvent);
      rows.free_requested_event.push_back(kNoEvent);
      rows.free_completed_event.push_back(kNoEvent);
      rows.stream.push_back(0);
      rows.stack.push_back(store.add_stack(StackId(), frame("train", line)));
      rows.segment.push_back(SegmentId());
    }
  }
  FrameId frame(const char* name, std::uint32_t line) {
    return store.add_frame({store.add_string(name), store.add_string("/train/case.py"), line});
  }
  [[nodiscard]] ComparedSide side() {
    live = std::make_unique<LiveRows>(*record);
    return {&store, record, live.get(), 0};
  }

  Store store;
  DeviceRecord* record = nullptr;
  std::unique_ptr<LiveRows> live;
};

TEST(Compare, groups_of_two_recordings_are_one_where_they_read_the_same) {
  OneMoment first({10, 10, 20}, false);
  OneMoment second({20, 30}, true);
  for (const GroupBy by : {GroupBy::line, GroupBy::stack}) {
    const Comparison comparison = compare(first.side(), second.side(), by);
    ASSERT_EQ(comparison.groups.size(), 3U);
    EXPECT_EQ(comparison.groups[0].first_bytes, 1024U);  // line 10, freed
    EXPECT_EQ(comparison.groups[0].second_bytes, 0U);
    EXPECT_EQ(comparison.groups[1].second_bytes, 512U);  // line 30, new
    EXPECT_FALSE(comparison.groups[1].is_of_first);
    EXPECT_EQ(comparison.groups[2].first_bytes, 512U);  // line 20, unchanged
    EXPECT_EQ(comparison.groups[2].second_bytes, 512U);
  }
}

}  // namespace
}  // namespace gpumemprof
