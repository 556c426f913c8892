#include "analysis/calls/call_tree.h"

#include <algorithm>
#include <unordered_map>

namespace gpumemprof {
namespace {

// Stacks may be very deep in a forged file: nothing here recurses.
class CallTreeMaker {
 public:
  CallTreeMaker(const LiveSet& live, const Store& store) : live_(live), store_(store) {}

  CallTree run() {
    for (std::size_t row = 0; row < live_.groups.size(); ++row)
      add(live_.groups[row], static_cast<std::uint32_t>(row));
    // Every node follows its parent here, so one pass backwards sums up.
    for (std::size_t index = nodes_.size(); index-- > 0;) {
      CallNode& node = nodes_[index];
      node.bytes += node.self_bytes;
      node.blocks += node.self_blocks;
      if (node.parent == CallNode::kNoParent) continue;
      nodes_[node.parent].bytes += node.bytes;
      nodes_[node.parent].blocks += node.blocks;
    }
    return in_order();
  }

 private:
  void add(const LiveGroup& group, std::uint32_t row) {
    std::uint32_t node = node_of(group.stack);
    if (group.is_backward) node = child(node, key_of(group.stack) | kBackward, {}, true);
    nodes_[node].self_bytes += group.bytes;
    nodes_[node].self_blocks += group.blocks;
    nodes_[node].group = row;
  }

  static constexpr std::uint64_t kBackward = std::uint64_t{1} << 32U;
  static std::uint64_t key_of(StackId stack) { return stack.index; }

  std::uint32_t node_of(StackId stack) {
    if (stack.is_none()) return child(CallNode::kNoParent, key_of(stack), {}, false);
    std::vector<StackId> missing;
    std::uint32_t parent = CallNode::kNoParent;
    for (StackId at = stack; !at.is_none(); at = store_.stacks().caller(at)) {
      if (const auto known = by_key_.find(key_of(at)); known != by_key_.end()) {
        parent = known->second;
        break;
      }
      missing.push_back(at);
    }
    for (auto at = missing.rbegin(); at != missing.rend(); ++at)
      parent = child(parent, key_of(*at), store_.stacks().frame(*at), false);
    return parent;
  }

  std::uint32_t child(std::uint32_t parent, std::uint64_t key, FrameId frame, bool is_backward) {
    const auto [known, is_new] =
        by_key_.try_emplace(key, static_cast<std::uint32_t>(nodes_.size()));
    if (!is_new) return known->second;
    CallNode node;
    node.parent = parent;
    node.frame = frame;
    node.is_backward = is_backward;
    nodes_.push_back(node);
    return known->second;
  }

  CallTree in_order() {
    std::vector<std::vector<std::uint32_t>> children(nodes_.size());
    std::vector<std::uint32_t> open;  // the next one last
    for (std::uint32_t index = 0; index < nodes_.size(); ++index) {
      const std::uint32_t parent = nodes_[index].parent;
      (parent == CallNode::kNoParent ? open : children[parent]).push_back(index);
    }
    // Ties in the order in which they were found, so that the result is the same every time.
    const auto less = [&](std::uint32_t a, std::uint32_t b) {
      return nodes_[a].bytes == nodes_[b].bytes ? a > b : nodes_[a].bytes < nodes_[b].bytes;
    };
    std::ranges::sort(open, less);
    CallTree tree;
    tree.allocated_bytes = live_.allocated_bytes;
    tree.blocks = live_.blocks;
    std::vector<std::uint32_t> place(nodes_.size());
    while (!open.empty()) {
      const std::uint32_t index = open.back();
      open.pop_back();
      place[index] = static_cast<std::uint32_t>(tree.nodes.size());
      CallNode node = nodes_[index];
      if (node.parent != CallNode::kNoParent) node.parent = place[node.parent];
      tree.nodes.push_back(node);
      std::ranges::sort(children[index], less);
      open.insert(open.end(), children[index].begin(), children[index].end());
    }
    return tree;
  }

  const LiveSet& live_;
  const Store& store_;
  std::vector<CallNode> nodes_;  // parents before children
  std::unordered_map<std::uint64_t, std::uint32_t> by_key_;
};

}  // namespace

CallTree make_call_tree(const LiveSet& live, const Store& store) {
  return CallTreeMaker(live, store).run();
}

}  // namespace gpumemprof
