// Flame graphs by module and by tag, and of backward.
#include "analysis/moment/flame.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <memory>
#include <set>

#include "analysis/moment/live_rows.h"
#include "analysis/random_history.h"
#include "analysis/table/allocation_query.h"
#include "analysis/timeline/grouping.h"
#include "base/bytes.h"

namespace gpumemprof {
namespace {

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

}  // namespace
}  // namespace gpumemprof
