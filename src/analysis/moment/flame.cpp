#include "analysis/moment/flame.h"

#include <algorithm>
#include <ranges>

#include "analysis/code/code_kind.h"
#include "analysis/code/whence.h"
#include "analysis/modules/module_index.h"
#include "analysis/tags/tags.h"
#include "analysis/timeline/grouping.h"
#include "base/flat_map.h"

namespace gpumemprof {
namespace {

constexpr std::string_view kNames[] = {"stack", "module", "tag"};

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

// A tree of calls: all of them, the forward() frames only, or all below the tag.
class CallTree {
 public:
  CallTree(const Store& store, const DeviceRecord& record, FlameBy by)
      : store_(store), record_(record), by_(by) {}

  // The node of an allocation, created if it does not exist yet.
  std::uint32_t place(std::size_t row) {
    const std::uint32_t root = by_ == FlameBy::tag ? tag_node(row) : FlameNode::kNoParent;
    const Whence from = whence(record_, row);
    const std::uint32_t node = node_of(root, from.stack);
    return from.is_backward && by_ != FlameBy::module ? child(node, FrameId()) : node;
  }

  std::vector<FlameNode>& nodes() { return nodes_; }

 private:
  static constexpr std::uint64_t key(std::uint32_t parent, std::uint32_t index) {
    return (std::uint64_t{parent} << 32) | index;
  }

  // A loop, since untrusted stacks may be very deep.
  std::uint32_t node_of(std::uint32_t root, StackId stack) {
    path_.clear();
    std::uint32_t node = root;
    for (StackId part = stack; !part.is_none(); part = store_.stacks().caller(part)) {
      if (const std::uint32_t* known = node_of_stack_.find(key(root, part.index))) {
        node = *known;
        break;
      }
      path_.push_back(part);
    }
    for (const StackId part : std::views::reverse(path_)) {
      const FrameId frame = store_.stacks().frame(part);
      if (is_shown(frame)) node = child(node, frame);
      node_of_stack_.insert_or_assign(key(root, part.index), node);
    }
    return node == FlameNode::kNoParent ? child(node, FrameId()) : node;
  }

  [[nodiscard]] bool is_shown(FrameId frame) const {
    return by_ != FlameBy::module || is_module_forward(store_, frame);
  }

  std::uint32_t child(std::uint32_t parent, FrameId frame) {
    const auto next = static_cast<std::uint32_t>(nodes_.size());
    // No parent and no frame together would be the map's empty key.
    const std::uint32_t node =
        children_.find_or_insert(key(parent, frame.is_none() ? 0xfffffffeU : frame.index), next);
    if (node == next) nodes_.push_back({parent, frame, {}});
    return node;
  }

  std::uint32_t tag_node(std::size_t row) {
    const StringId tag = tag_of(record_, row);
    const auto next = static_cast<std::uint32_t>(nodes_.size());
    const std::uint32_t node = node_of_tag_.find_or_insert(tag.index, next);
    if (node == next) nodes_.push_back({FlameNode::kNoParent, {}, tag});
    return node;
  }

  const Store& store_;
  const DeviceRecord& record_;
  FlameBy by_;
  std::vector<FlameNode> nodes_;
  FlatMap<std::uint32_t> node_of_stack_;  // below each root
  FlatMap<std::uint32_t> children_;
  FlatMap<std::uint32_t> node_of_tag_;
  std::vector<StackId> path_;
};

// By instance: a tree of paths.
class ModuleTree {
 public:
  ModuleTree(const Store& store, const DeviceRecord& record)
      : record_(record), index_(store), node_of_entry_(index_.entries().size() + 1, kUnset) {}

  std::uint32_t place(std::size_t row) { return node_of(index_.of(record_, record_.labels, row)); }

  std::vector<FlameNode>& nodes() { return nodes_; }

 private:
  static constexpr std::uint32_t kUnset = 0xfffffffeU;

  std::uint32_t node_of(std::uint32_t entry) {
    if (entry == kNoModule) return known(entry, FlameNode::kNoParent);
    // A loop, since untrusted paths may be very deep.
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
    nodes_.push_back({parent, {}, entry == kNoModule ? StringId() : index_.entries()[entry].name});
    return node;
  }

  const DeviceRecord& record_;
  ModuleIndex index_;
  std::vector<std::uint32_t> node_of_entry_;  // the last: allocations of no module
  std::vector<FlameNode> nodes_;
  std::vector<std::uint32_t> path_;
};

// Calls `use` with the tree that groups a device's memory by `by`.
template <typename Use>
auto with_tree(const Store& store, const DeviceRecord& record, FlameBy by, const Use& use) {
  if (by == FlameBy::module && store.has_module_numbers()) {
    ModuleTree tree(store, record);
    return use(tree);
  }
  CallTree tree(store, record, by);
  return use(tree);
}

// Keeps only the largest nodes, siblings in order of size, parents first.
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
    // A parent has at least the bytes of its child and was created before it, so it comes first.
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
  [[nodiscard]] std::uint64_t least_bytes() const {
    std::uint64_t total = 0;
    for (const FlameNode& node : all_) total += node.self_bytes;
    return total / FlameOptions::kFinestShare;
  }

  std::vector<FlameNode> all_;
  const FlameOptions& options_;
};

}  // namespace

std::string_view flame_by_name(FlameBy by) { return kNames[static_cast<std::size_t>(by)]; }

std::vector<FlameBy> flame_bys(const DeviceRecord& record) {
  std::vector<FlameBy> bys = {FlameBy::stack, FlameBy::module};
  if (has_tags(record)) bys.push_back(FlameBy::tag);
  return bys;
}

FlameTree flame_tree(const Store& store, const DeviceRecord& record, FlameBy by) {
  FlameTree result;
  result.by = by;
  with_tree(store, record, by, [&](auto& tree) {
    result.node_of_allocation.reserve(record.allocations.size());
    for (std::size_t row = 0; row < record.allocations.size(); ++row)
      result.node_of_allocation.push_back(tree.place(row));
    result.nodes = std::move(tree.nodes());
  });
  return result;
}

Flame flame_of(const Store& store, const DeviceRecord& record,
               const std::vector<AllocationId>& allocations, const FlameOptions& options) {
  const AllocationColumns& rows = record.allocations;
  Flame flame;
  with_tree(store, record, options.by, [&](auto& tree) {
    for (const AllocationId row : allocations) {
      const std::uint32_t node = tree.place(row.index);
      add_block(tree.nodes()[node], rows.size_bytes[row.index]);
      flame.allocated_bytes += rows.size_bytes[row.index];
      ++flame.blocks;
    }
    Pruner(summed_up(std::move(tree.nodes())), options).run(flame);
  });
  return flame;
}

Flame flame_at(const Store& store, const DeviceRecord& record, const LiveRows& live,
               Position position, const FlameOptions& options) {
  const Moment moment = moment_of(position);
  std::vector<AllocationId> allocated = live.active_at(position);
  std::erase_if(allocated, [&](AllocationId row) {
    return !record.allocations.is_allocated_at(row.index, moment);
  });
  return flame_of(store, record, allocated, options);
}

void FlameSum::add(const Store& store, const DeviceRecord& record,
                   const std::vector<AllocationId>& allocations) {
  with_tree(store, record, options_.by, [&](auto& tree) {
    for (const AllocationId row : allocations) {
      const std::uint32_t node = tree.place(row.index);
      add_block(tree.nodes()[node], record.allocations.size_bytes[row.index]);
    }
    std::vector<std::uint32_t> place_of;
    for (const FlameNode& node : tree.nodes()) {
      const bool is_root = node.parent == FlameNode::kNoParent;
      const std::uint32_t parent = is_root ? node.parent : place_of[node.parent];
      const auto [place, is_new] = places_.try_emplace({parent, node.frame, node.name},
                                                       static_cast<std::uint32_t>(nodes_.size()));
      if (is_new) nodes_.push_back({parent, node.frame, node.name});
      FlameNode& sum = nodes_[place->second];
      sum.bytes += node.bytes;
      sum.self_bytes += node.self_bytes;
      sum.blocks += node.blocks;
      place_of.push_back(place->second);
    }
  });
}

Flame FlameSum::result() && {
  Flame flame;
  for (const FlameNode& node : nodes_) {
    flame.allocated_bytes += node.self_bytes;
    flame.blocks += node.blocks;
  }
  Pruner(summed_up(std::move(nodes_)), options_).run(flame);
  return flame;
}

}  // namespace gpumemprof
