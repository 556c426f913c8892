#include "analysis/moment/flame.h"

#include <algorithm>
#include <ranges>

#include "analysis/sources/code_kind.h"
#include "analysis/sources/module_index.h"
#include "analysis/timeline/grouping.h"
#include "base/flat_map.h"

namespace gpumemprof {
namespace {

// Children come after their parents, so one pass backwards adds everything up.
std::vector<FlameNode> summed_up(std::vector<FlameNode> nodes) {
  for (std::size_t index = nodes.size(); index-- > 0;) {
    const FlameNode& node = nodes[index];
    if (node.parent == FlameNode::kNoParent) continue;
    nodes[node.parent].bytes += node.bytes;
    nodes[node.parent].blocks += node.blocks;
  }
  return nodes;
}

void add_block(FlameNode& node, std::uint64_t bytes) {
  node.bytes += bytes;
  node.self_bytes += bytes;
  ++node.blocks;
}

class TreeBuilder {
 public:
  TreeBuilder(const Store& store, const FlameOptions& options) : store_(store), options_(options) {
    node_of_stack_.resize(store.stacks().size(), kUnset);
  }

  // The node of an allocation, made if it is not there yet.
  std::uint32_t place(const DeviceRecord& record, std::size_t row) {
    if (options_.by == FlameBy::module) return node_of(module_stack(record, row));
    if (const StackId forward = backward_stack(record, row); !forward.is_none())
      return child(node_of(forward), FrameId());
    return node_of(record.allocations.stack[row]);
  }

  void add(const DeviceRecord& record, std::size_t row) {
    add_block(nodes_[place(record, row)], record.allocations.size_bytes[row]);
  }

  std::vector<FlameNode> finish() { return summed_up(std::move(nodes_)); }

 private:
  static constexpr std::uint32_t kUnset = 0xfffffffeU;

  // A loop, as stacks of strangers may be very deep.
  std::uint32_t node_of(StackId stack) {
    path_.clear();
    StackId known = stack;
    while (!known.is_none() && node_of_stack_[known.index] == kUnset) {
      path_.push_back(known);
      known = store_.stacks().caller(known);
    }
    std::uint32_t node = known.is_none() ? FlameNode::kNoParent : node_of_stack_[known.index];
    for (std::size_t index = path_.size(); index-- > 0;) {
      const FrameId frame = store_.stacks().frame(path_[index]);
      if (is_shown(frame)) node = child(node, frame);
      node_of_stack_[path_[index].index] = node;
    }
    return node == FlameNode::kNoParent ? child(node, FrameId()) : node;
  }

  [[nodiscard]] bool is_shown(FrameId frame) const {
    return options_.by == FlameBy::stack || is_module_forward(store_, frame);
  }

  std::uint32_t child(std::uint32_t parent, FrameId frame) {
    const auto next = static_cast<std::uint32_t>(nodes_.size());
    // No parent and no frame together would be the map's empty key.
    const std::uint64_t key =
        (std::uint64_t{parent} << 32) | (frame.is_none() ? 0xfffffffeU : frame.index);
    const std::uint32_t node = children_.find_or_insert(key, next);
    if (node == next) nodes_.push_back({parent, frame, {}});
    return node;
  }

  const Store& store_;
  const FlameOptions& options_;
  std::vector<FlameNode> nodes_;
  std::vector<std::uint32_t> node_of_stack_;
  FlatMap<std::uint32_t> children_;
  std::vector<StackId> path_;
};

// By instance: a tree of paths.
class ModuleTreeBuilder {
 public:
  ModuleTreeBuilder(const Store& store, const DeviceRecord& record)
      : record_(record), index_(store), node_of_entry_(index_.entries().size() + 1, kUnset) {}

  void add(std::size_t row, std::uint64_t bytes) {
    const std::uint32_t entry = index_.of(record_, record_.labels, row);
    add_block(nodes_[node_of(entry)], bytes);
  }

  std::vector<FlameNode> finish() { return summed_up(std::move(nodes_)); }

 private:
  static constexpr std::uint32_t kUnset = 0xfffffffeU;

  std::uint32_t node_of(std::uint32_t entry) {
    if (entry == kNoModule) return known(entry, FlameNode::kNoParent);
    // A loop, as the paths of strangers may be very deep.
    path_.clear();
    std::uint32_t at = entry;
    for (; at != kNoModule && node_of_entry_[at] == kUnset; at = index_.around(at))
      path_.push_back(at);
    std::uint32_t node = at == kNoModule ? FlameNode::kNoParent : node_of_entry_[at];
    for (const std::uint32_t each : std::views::reverse(path_)) node = known(each, node);
    return node;
  }

  std::uint32_t known(std::uint32_t entry, std::uint32_t parent) {
    std::uint32_t& node =
        node_of_entry_[entry == kNoModule ? index_.entries().size() : std::size_t{entry}];
    if (node != kUnset) return node;
    node = static_cast<std::uint32_t>(nodes_.size());
    FlameNode made;
    made.parent = parent;
    if (entry != kNoModule) made.module = index_.entries()[entry].name;
    nodes_.push_back(made);
    return node;
  }

  const DeviceRecord& record_;
  ModuleIndex index_;
  std::vector<std::uint32_t> node_of_entry_;  // the last: of no module
  std::vector<FlameNode> nodes_;
  std::vector<std::uint32_t> path_;
};

// The largest nodes alone, siblings in order of size, parents first.
class Pruner {
 public:
  Pruner(std::vector<FlameNode> all, const FlameOptions& options)
      : all_(std::move(all)), options_(options) {}

  void run(Flame& flame) {
    const std::uint64_t least = least_bytes();
    std::vector<std::uint32_t> order(all_.size());
    for (std::uint32_t index = 0; index < order.size(); ++index) order[index] = index;
    std::stable_sort(order.begin(), order.end(), [&](std::uint32_t a, std::uint32_t b) {
      return all_[a].bytes > all_[b].bytes;
    });
    // A parent has at least the bytes of its child and was made before it, so it comes first.
    std::vector<std::uint32_t> kept(all_.size(), FlameNode::kNoParent);
    std::vector<std::uint32_t> depth(all_.size(), 0);
    for (const std::uint32_t index : order) {
      FlameNode node = all_[index];
      const bool has_parent = node.parent != FlameNode::kNoParent;
      if (has_parent) depth[index] = depth[node.parent] + 1;
      const bool is_kept = node.bytes >= least && depth[index] < options_.most_levels &&
                           flame.nodes.size() < options_.most_nodes &&
                           (!has_parent || kept[node.parent] != FlameNode::kNoParent);
      if (!is_kept) {
        ++flame.nodes_left_out;
        continue;
      }
      kept[index] = static_cast<std::uint32_t>(flame.nodes.size());
      if (has_parent) node.parent = kept[node.parent];
      flame.nodes.push_back(node);
    }
  }

 private:
  // What would be a hair's breadth on the widest screen.
  [[nodiscard]] std::uint64_t least_bytes() const {
    constexpr std::uint64_t kFinestShare = 8000;
    std::uint64_t total = 0;
    for (const FlameNode& node : all_) total += node.self_bytes;
    return total / kFinestShare;
  }

  std::vector<FlameNode> all_;
  const FlameOptions& options_;
};

}  // namespace

FlameTree flame_tree(const Store& store, const DeviceRecord& record, FlameBy by) {
  FlameOptions options;
  options.by = by;
  TreeBuilder builder(store, options);
  FlameTree tree;
  tree.node_of_allocation.reserve(record.allocations.size());
  for (std::size_t row = 0; row < record.allocations.size(); ++row)
    tree.node_of_allocation.push_back(builder.place(record, row));
  tree.nodes = builder.finish();
  return tree;
}

Flame flame_at(const Store& store, const DeviceRecord& record, const LiveRows& live,
               Position position, const FlameOptions& options) {
  const AllocationColumns& rows = record.allocations;
  const Moment moment = moment_of(position);
  Flame flame;
  const auto fill = [&](const auto& add) {
    for (const AllocationId row : live.active_at(position)) {
      if (!rows.is_allocated_at(row.index, moment)) continue;
      add(row.index, rows.size_bytes[row.index]);
      flame.allocated_bytes += rows.size_bytes[row.index];
      ++flame.blocks;
    }
  };
  if (options.by == FlameBy::module && store.has_module_numbers()) {
    ModuleTreeBuilder builder(store, record);
    fill([&](std::size_t row, std::uint64_t bytes) { builder.add(row, bytes); });
    Pruner(builder.finish(), options).run(flame);
    return flame;
  }
  TreeBuilder builder(store, options);
  fill([&](std::size_t row, std::uint64_t /*bytes*/) { builder.add(record, row); });
  Pruner(builder.finish(), options).run(flame);
  return flame;
}

}  // namespace gpumemprof
