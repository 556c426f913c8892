// What is live at a moment, as the viewer shows it: rows, flame graph, segment map, table, compare.
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <map>
#include <memory>
#include <set>

#include "analysis/compare/compare.h"
#include "analysis/moment/flame.h"
#include "analysis/moment/live_rows.h"
#include "analysis/moment/segment_map.h"
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

class SearchOfRandomHistory : public ::testing::Test {
 protected:
  // A search must find as many allocations as a scan with this condition.
  void expect_same(const std::string& words, const std::function<bool(std::size_t)>& is_wanted) {
    AllocationQuery query;
    query.limit = 1'000'000;
    query.filter.words = words;
    const EventTimes times(history_.record->events);
    const AllocationPage page = find_allocations(history_.store, *history_.record, times, query);
    std::vector<AllocationId> expected;
    for (std::size_t row = 0; row < history_.record->allocations.size(); ++row) {
      if (is_wanted(row)) expected.emplace_back(row);
    }
    std::vector<AllocationId> found = page.rows;
    std::sort(found.begin(), found.end());
    EXPECT_EQ(found, expected) << words;
    EXPECT_GT(found.size(), 0U) << words;
    EXPECT_LT(found.size(), history_.record->allocations.size()) << words;
  }

  bool any_frame(std::size_t row, const std::function<bool(const Frame&)>& is_it) const {
    for (StackId part = history_.record->allocations.stack[row]; !part.is_none();
         part = history_.store.stacks().caller(part)) {
      if (is_it(history_.store.frame(history_.store.stacks().frame(part)))) return true;
    }
    return false;
  }

  RandomHistory history_{31, 400};
};

TEST_F(SearchOfRandomHistory, finds_a_line_of_a_file) {
  expect_same("CASE.py:2", [&](std::size_t row) {
    return any_frame(row, [&](const Frame& frame) {
      return frame.line == 2 && history_.store.text(frame.file) == "/train/case.py";
    });
  });
}

TEST_F(SearchOfRandomHistory, finds_a_source) {
  expect_same("gradients", [&](std::size_t row) {
    return history_.record->labels.source[row] == MemorySource::gradients;
  });
  expect_same("source:optimizer", [&](std::size_t row) {
    return history_.record->labels.source[row] == MemorySource::optimizer_state;
  });
}

TEST_F(SearchOfRandomHistory, finds_a_tensor_by_its_name) {
  const StringId name = history_.store.add_string("blocks.1.down.weight");
  for (std::size_t row = 0; row < history_.record->allocations.size(); ++row)
    history_.record->labels.name.push_back(row % 3 == 0 ? name : StringId());
  expect_same("blocks.1.down", [](std::size_t row) { return row % 3 == 0; });
  expect_same("name:Blocks.1", [](std::size_t row) { return row % 3 == 0; });
}

TEST_F(SearchOfRandomHistory, finds_what_was_tagged) {
  const StringId tag = history_.store.add_string("prompts");
  Column<StringId>& tags = history_.record->events.user_metadata;
  tags.resize(history_.record->events.size(), StringId());
  for (std::size_t event = 0; event < tags.size(); event += 3) tags[event] = tag;
  const auto is_tagged = [&](std::size_t row) {
    const std::uint32_t event = history_.record->allocations.alloc_event[row];
    return event != kNoEvent && event % 3 == 0;
  };
  expect_same("Prompts", is_tagged);
  expect_same("tag:prompt", is_tagged);
  expect_same("-tag:prompt", [&](std::size_t row) { return !is_tagged(row); });
}

TEST_F(SearchOfRandomHistory, looks_where_it_is_told_and_leaves_out_what_it_is_told) {
  const auto has_function = [&](std::size_t row) {
    return any_frame(
        row, [&](const Frame& frame) { return history_.store.text(frame.name) == "train"; });
  };
  const auto has_file = [&](std::size_t row) {
    return any_frame(row, [&](const Frame& frame) {
      return history_.store.text(frame.file).find("train") != std::string_view::npos;
    });
  };
  expect_same("function:train", has_function);
  expect_same("file:train", has_file);
  expect_same("-train", [&](std::size_t row) { return !has_function(row) && !has_file(row); });
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

// The flame graph of a moment by path: "outer > inner", and the bytes of each node itself.
std::map<std::string, std::uint64_t> named_nodes(const Store& store, const Flame& flame) {
  std::map<std::string, std::uint64_t> found;
  std::vector<std::string> ways;
  for (const FlameNode& node : flame.nodes) {
    const std::string name(node.name.is_none() ? "-" : store.text(node.name));
    ways.push_back(node.parent == FlameNode::kNoParent ? name : ways[node.parent] + " > " + name);
    found[ways.back()] += node.bytes;
  }
  return found;
}

// Assigns a module or a tag to the event of each allocation, in turn.
template <typename Name>
void name_events(RandomHistory& history, const Name& name) {
  DeviceRecord& record = *history.record;
  for (std::uint32_t row = 0; row < record.allocations.size(); ++row) {
    const std::uint32_t event = record.allocations.alloc_event[row];
    if (event != kNoEvent) name(event, row);
  }
}

TEST(FlameByModule, shows_instances_in_each_other_at_a_moment_and_over_the_run) {
  constexpr Position kMoment = 150;
  RandomHistory history(51, 300);
  DeviceRecord& record = *history.record;
  const std::pair<const char*, const char*> modules[] = {
      {"", "Net"}, {"h.0", "Block"}, {"h.0.mlp", "Linear"}, {"h.1", "Block"}};
  for (std::uint32_t number = 0; number < std::size(modules); ++number) {
    ModuleLabel label;
    label.path = history.store.add_string(modules[number].first);
    label.class_name = history.store.add_string(modules[number].second);
    label.number = number;
    label.is_root = number == 0;
    history.store.add_module(label);
  }
  record.events.module.resize(record.events.size(), kNoModule);
  name_events(history, [&](std::uint32_t event, std::uint32_t row) {
    record.events.module[event] = row % 5 == 4 ? kNoModule : row % 5;
  });
  FlameOptions options;
  options.by = FlameBy::module;
  const LiveRows live(record);
  const Flame flame = flame_at(history.store, record, live, kMoment, options);
  const std::map<std::string, std::uint64_t> found = named_nodes(history.store, flame);
  std::vector<std::string> ways;
  for (const auto& [way, bytes] : found) ways.push_back(way);
  const std::vector<std::string> expected = {"-", "Net", "Net > h.0", "Net > h.0 > h.0.mlp",
                                             "Net > h.1"};
  EXPECT_EQ(ways, expected);
  // What a standalone file computes it from.
  const FlameTree tree = flame_tree(history.store, record, FlameBy::module);
  ASSERT_EQ(tree.nodes.size(), expected.size());
  std::uint64_t in_mlp = 0;
  for (std::size_t row = 0; row < record.allocations.size(); ++row) {
    const FlameNode& node = tree.nodes[tree.node_of_allocation[row]];
    if (!record.allocations.is_allocated_at(row, moment_of(kMoment))) continue;
    if (history.store.text(node.name) == "h.0.mlp") in_mlp += record.allocations.size_bytes[row];
  }
  EXPECT_EQ(found.at("Net > h.0 > h.0.mlp"), in_mlp);
}

TEST(FlameByTag, shows_the_calls_under_each_tag) {
  constexpr Position kMoment = 150;
  RandomHistory history(52, 300);
  DeviceRecord& record = *history.record;
  EXPECT_EQ(flame_bys(record), (std::vector{FlameBy::stack, FlameBy::module}));
  const StringId tag = history.store.add_string("kv_cache");
  record.events.user_metadata.resize(record.events.size(), StringId());
  std::uint64_t bytes = 0;
  name_events(history, [&](std::uint32_t event, std::uint32_t row) {
    if (row % 3 != 0) return;
    record.events.user_metadata[event] = tag;
    if (record.allocations.is_allocated_at(row, moment_of(kMoment)))
      bytes += record.allocations.size_bytes[row];
  });
  EXPECT_EQ(flame_bys(record), (std::vector{FlameBy::stack, FlameBy::module, FlameBy::tag}));
  FlameOptions options;
  options.by = FlameBy::tag;
  const Flame flame = flame_at(history.store, record, LiveRows(record), kMoment, options);
  ASSERT_GT(bytes, 0U);
  std::size_t roots = 0;
  std::size_t calls = 0;
  for (const FlameNode& node : flame.nodes) {
    if (node.parent != FlameNode::kNoParent) {
      EXPECT_FALSE(node.frame.is_none());
      ++calls;
      continue;
    }
    ++roots;
    if (node.name == tag) {
      EXPECT_EQ(node.bytes, bytes);
    } else {
      EXPECT_TRUE(node.name.is_none());
      EXPECT_EQ(node.bytes, flame.allocated_bytes - bytes);
    }
  }
  EXPECT_EQ(roots, 2U);
  EXPECT_GT(calls, 2U);
}

INSTANTIATE_TEST_SUITE_P(seeds, MomentOfRandomHistory, ::testing::Values(11U, 12U, 13U));

TEST(Backward, memory_without_a_stack_belongs_to_the_forward_it_is_for) {
  constexpr Position kMoment = 150;
  RandomHistory history(41, 300);
  DeviceRecord& record = *history.record;
  record.events.forward_stack.resize(record.events.size(), StackId());
  std::uint64_t bytes = 0;
  std::vector<std::size_t> moved;
  for (std::size_t row = 0; row < record.allocations.size(); row += 3) {
    const std::uint32_t event = record.allocations.alloc_event[row];
    if (event == kNoEvent || record.allocations.stack[row].is_none()) continue;
    record.events.forward_stack[event] = record.allocations.stack[row];
    record.allocations.stack[row] = StackId();
    moved.push_back(row);
    if (record.allocations.is_allocated_at(row, moment_of(kMoment)))
      bytes += record.allocations.size_bytes[row];
  }
  ASSERT_GT(bytes, 0U);
  const LiveRows live(record);
  const Flame flame = flame_at(history.store, record, live, kMoment, {});
  std::uint64_t in_backward = 0;
  for (const FlameNode& node : flame.nodes) {
    if (node.frame.is_none() && node.parent != FlameNode::kNoParent) in_backward += node.bytes;
  }
  EXPECT_EQ(in_backward, bytes);
  for (const GroupBy by : {GroupBy::line, GroupBy::stack}) {
    const Grouping grouping = make_grouping(history.store, record, kNoEvent, by);
    for (const std::size_t row : moved) {
      const Group& group = grouping.groups[grouping.group_of_allocation[row]];
      EXPECT_TRUE(group.is_backward || group.is_rest);
    }
  }
}

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

TEST(SegmentMap, blocks_tile_their_segments_and_the_oldest_pins) {
  Store store;
  store.add_stream(0);
  EventColumns events;
  const auto add = [&](Action action, std::uint64_t address, std::uint64_t size) {
    Event event;
    event.action = action;
    event.address = address;
    event.size_bytes = size;
    event.time_ns = static_cast<std::int64_t>(events.size());
    events.push_back(event);
  };
  constexpr std::uint64_t kBase = 0x10000000;
  add(Action::segment_alloc, kBase, 20 * kMiB);
  add(Action::alloc, kBase, 4 * kMiB);
  add(Action::alloc, kBase + 4 * kMiB, 4 * kMiB);
  add(Action::alloc, kBase + 8 * kMiB, 4 * kMiB);
  add(Action::free_requested, kBase, 4 * kMiB);
  add(Action::free_completed, kBase, 4 * kMiB);
  add(Action::free_requested, kBase + 8 * kMiB, 4 * kMiB);  // a stream still uses it
  store.add_events(0, std::move(events));
  Origin origin;
  origin.has_traces = true;
  origin.has_start = true;
  store.set_origin(origin);
  DeviceRecord& record = *store.devices().front();
  replay_device(record, store.settings(), origin);
  const LiveRows live(record);
  const SegmentMap map = segment_map_at(record, live, 7);
  ASSERT_EQ(map.segments.size(), 1U);
  EXPECT_EQ(map.reserved_bytes, 20 * kMiB);
  EXPECT_EQ(map.allocated_bytes, 4 * kMiB);
  EXPECT_EQ(map.waiting_bytes, 4 * kMiB);
  EXPECT_EQ(map.free_bytes, 12 * kMiB);
  ASSERT_EQ(map.blocks.size(), 4U);
  EXPECT_TRUE(map.blocks[0].allocation.is_none());
  EXPECT_TRUE(map.blocks[2].is_waiting);
  EXPECT_EQ(map.segments[0].pin, map.blocks[1].allocation);
  std::uint64_t position = kBase;
  for (const MappedBlock& block : map.blocks) {
    EXPECT_EQ(block.address, position);
    position += block.size_bytes;
  }
}

}  // namespace
}  // namespace gpumemprof
