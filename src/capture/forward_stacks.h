// ForwardStacks: where each node of autograd's graph was made, for as long as its backward may
// come.
//
// A table of fixed size, so that recording stays bounded: a node displaces the one made kNodes
// before it. A node that is not found any more has no stack, never another's. For the drain thread
// alone.
#pragma once

#include <vector>

#include "capture/record.h"
#include "event/event.h"

namespace gpumemprof::capture {

class ForwardStacks {
 public:
  static constexpr std::size_t kNodes = std::size_t{1} << 18;

  void made(NodeKey node, StackId stack) {
    if (entries_.empty()) entries_.resize(kNodes);
    entries_[place(node)] = {node, stack};
  }
  // The thread runs this node from now on; none: no backward.
  void runs(std::uint16_t thread, NodeKey node) {
    if (running_.size() <= thread) running_.resize(thread + std::size_t{1});
    running_[thread] = find(node);
  }
  // Where the node that the thread runs was made.
  [[nodiscard]] StackId of(std::uint16_t thread) const {
    return thread < running_.size() ? running_[thread] : StackId();
  }

 private:
  struct Entry {
    NodeKey node;
    StackId stack;
  };

  // Sequence numbers of one thread follow each other, so they share the table without collisions.
  static std::size_t place(NodeKey node) {
    return (node.sequence + node.thread * 0x9E3779B97F4A7C15ULL) & (kNodes - 1);
  }
  [[nodiscard]] StackId find(NodeKey node) const {
    if (node.is_none() || entries_.empty()) return StackId();
    const Entry& entry = entries_[place(node)];
    return entry.node == node ? entry.stack : StackId();
  }

  std::vector<Entry> entries_;
  std::vector<StackId> running_;  // by thread
};

}  // namespace gpumemprof::capture
