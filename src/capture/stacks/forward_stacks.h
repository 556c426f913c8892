// ForwardStacks: where each autograd node was created, for as long as its backward may come.
//
// A thread reports where it created a node only if the stack differs from that of the node before:
// its last report is open, and holds for every node that follows. Closed entries go into a table of
// fixed size, so that recording stays bounded: a node displaces the one created kNodes before it. A
// node that is no longer found has no stack, never another node's. For the drain thread alone.
#pragma once

#include <algorithm>
#include <vector>

#include "capture/record.h"
#include "event/event.h"

namespace gpumemprof::capture {

class ForwardStacks {
 public:
  static constexpr std::size_t kNodes = std::size_t{1} << 18;

  // Nodes were created that were not recorded: nothing is open any more.
  void enter_epoch(std::uint32_t epoch) {
    if (epoch == epoch_) return;
    epoch_ = epoch;
    open_.assign(open_.size(), Open());
  }

  // The thread has created this node; its previous report held up to `end_before`.
  void made(std::uint16_t thread, NodeKey node, std::uint64_t end_before, StackId stack) {
    if (open_.size() <= thread) open_.resize(thread + std::size_t{1});
    close(open_[thread], end_before);
    open_[thread] = {node, stack};
  }

  // The thread runs this node from now on; none: not in backward.
  void runs(std::uint16_t thread, NodeKey node) {
    if (running_.size() <= thread) running_.resize(thread + std::size_t{1});
    running_[thread] = find(node);
  }
  // Where the node that the thread runs was created.
  [[nodiscard]] StackId of(std::uint16_t thread) const {
    return thread < running_.size() ? running_[thread] : StackId();
  }

 private:
  struct Entry {
    NodeKey node;
    StackId stack;
  };
  // All nodes of this node's thread from this one on; none: nothing is open.
  using Open = Entry;

  void close(const Open& open, std::uint64_t end) {
    if (open.node.is_none() || open.node.sequence >= end) return;
    if (entries_.empty()) entries_.resize(kNodes);
    NodeKey node = open.node;
    node.sequence = std::max(node.sequence, end - std::min<std::uint64_t>(end, kNodes));
    for (; node.sequence < end; ++node.sequence) entries_[place(node)] = {node, open.stack};
  }

  // Sequence numbers of one thread are consecutive, so they share the table without collisions.
  static std::size_t place(NodeKey node) {
    return (node.sequence + node.thread * 0x9E3779B97F4A7C15ULL) & (kNodes - 1);
  }
  [[nodiscard]] StackId find(NodeKey node) const {
    if (node.is_none()) return StackId();
    if (!entries_.empty()) {
      const Entry& entry = entries_[place(node)];
      if (entry.node == node) return entry.stack;
    }
    const auto open = std::find_if(open_.begin(), open_.end(), [&](const Open& each) {
      return !each.node.is_none() && each.node.thread == node.thread &&
             each.node.sequence <= node.sequence;
    });
    return open == open_.end() ? StackId() : open->stack;
  }

  std::uint32_t epoch_ = 0;
  std::vector<Entry> entries_;
  std::vector<Open> open_;        // by thread
  std::vector<StackId> running_;  // by thread
};

}  // namespace gpumemprof::capture
