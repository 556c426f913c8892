#include "analysis/sources/modules.h"

#include <algorithm>
#include <ranges>

#include "analysis/peak/user_frame.h"
#include "analysis/sources/code_kind.h"
#include "analysis/sources/module_names.h"
#include "base/flat_map.h"

namespace gpumemprof {
namespace {

class Tree {
 public:
  Tree(const Store& store, const DeviceRecord& record)
      : store_(store),
        rows_(record.allocations),
        forward_stacks_(record.events.forward_stack),
        names_(store),
        node_of_stack_(store.stacks().size(), kNotAsked) {}

  void add(std::size_t row, MemorySource source) {
    const StackId stack = stack_of(row);
    if (stack.is_none()) return;
    const std::uint32_t node = node_of(stack);
    if (node == ModuleNode::kNoParent) return;
    nodes_[node].bytes += rows_.size_bytes[row];
    ++nodes_[node].blocks;
    nodes_[node].by_source.add(source, rows_.requested_bytes[row], rows_.size_bytes[row]);
  }

  // Children follow their parent, the largest first.
  std::vector<ModuleNode> finish() {
    sum_up();
    std::vector<std::vector<std::uint32_t>> children(nodes_.size() + 1);
    for (std::uint32_t node = 0; node < nodes_.size(); ++node) {
      const std::uint32_t parent = nodes_[node].parent;
      children[parent == ModuleNode::kNoParent ? nodes_.size() : parent].push_back(node);
    }
    for (auto& siblings : children) {
      std::stable_sort(siblings.begin(), siblings.end(), [&](std::uint32_t a, std::uint32_t b) {
        return nodes_[a].bytes > nodes_[b].bytes;
      });
    }
    std::vector<ModuleNode> ordered;
    std::vector<std::uint32_t> place(nodes_.size());
    std::vector<std::uint32_t> open(children.back().rbegin(), children.back().rend());
    while (!open.empty()) {
      const std::uint32_t node = open.back();
      open.pop_back();
      place[node] = static_cast<std::uint32_t>(ordered.size());
      ordered.push_back(nodes_[node]);
      if (nodes_[node].parent != ModuleNode::kNoParent)
        ordered.back().parent = place[nodes_[node].parent];
      open.insert(open.end(), children[node].rbegin(), children[node].rend());
    }
    return ordered;
  }

 private:
  static constexpr std::uint32_t kNotAsked = ModuleNode::kNoParent - 1;
  static constexpr std::size_t kMostNamed = 20'000;

  // Adds to every node what its children have; children were made after their parent.
  void sum_up() {
    for (std::size_t node = nodes_.size(); node-- > 0;) {
      if (nodes_[node].parent == ModuleNode::kNoParent) continue;
      ModuleNode& parent = nodes_[nodes_[node].parent];
      parent.bytes += nodes_[node].bytes;
      parent.blocks += nodes_[node].blocks;
      for (std::size_t source = 0; source < kMemorySourceCount; ++source)
        parent.by_source.by_source[source] += nodes_[node].by_source.by_source[source];
      parent.by_source.rounding += nodes_[node].by_source.rounding;
    }
  }

  // What backward allocates belongs to the module whose gradient it computes, where that was
  // recorded.
  [[nodiscard]] StackId stack_of(std::size_t row) const {
    const StackId own = rows_.stack[row];
    const std::uint32_t event = rows_.alloc_event[row];
    return own.is_none() && event < forward_stacks_.size() ? forward_stacks_[event] : own;
  }

  // From the outermost frame whose node is not known yet inwards: stacks may be deep.
  std::uint32_t node_of(StackId stack) {
    std::vector<StackId> path;
    StackId at = stack;
    for (; !at.is_none() && node_of_stack_[at.index] == kNotAsked; at = store_.stacks().caller(at))
      path.push_back(at);
    std::uint32_t node = at.is_none() ? ModuleNode::kNoParent : node_of_stack_[at.index];
    for (const StackId step : std::views::reverse(path)) {
      const FrameId frame = store_.stacks().frame(step);
      if (is_module_call(store_, frame)) node = child_of_caller(node, step);
      if (is_module_forward(store_, frame)) node = child(node, frame);
      node_of_stack_[step.index] = node;
    }
    return node;
  }

  // The line that calls a module, where it is not in a forward() itself.
  std::uint32_t child_of_caller(std::uint32_t parent, StackId call) {
    constexpr int kMostNative = 32;  // frames of the interpreter between two of Python
    StackId caller = store_.stacks().caller(call);
    for (int skipped = 0; skipped < kMostNative && !caller.is_none(); ++skipped) {
      const FrameId frame = store_.stacks().frame(caller);
      if (is_python(store_, frame))
        return is_line_of_module(store_, frame) ? child(parent, frame) : parent;
      caller = store_.stacks().caller(caller);
    }
    return parent;
  }

  std::uint32_t child(std::uint32_t parent, FrameId frame) {
    const std::uint64_t key = (std::uint64_t{parent} << 32U) | frame.index;
    const auto fresh = static_cast<std::uint32_t>(nodes_.size());
    const std::uint32_t node = by_step_.find_or_insert(key, fresh);
    if (node == fresh) {
      ModuleNode made;
      made.parent = parent;
      made.frame = frame;
      const bool is_outermost = parent == ModuleNode::kNoParent;
      const std::vector<std::uint32_t> callers =
          is_outermost ? std::vector<std::uint32_t>() : candidates_[parent];
      std::vector<std::uint32_t> modules;
      if (nodes_.size() < kMostNamed && is_module_forward(store_, frame))
        modules = names_.inside(callers, frame);
      made.name = names_.name_of(modules);
      nodes_.push_back(made);
      // A forward() that another one of the same module calls, as by super(), is of that module.
      candidates_.push_back(modules.empty() ? callers : modules);
    }
    return node;
  }

  const Store& store_;
  const AllocationColumns& rows_;
  const Column<StackId>& forward_stacks_;  // by event; empty where none was recorded
  ModuleNames names_;
  std::vector<std::vector<std::uint32_t>> candidates_;  // by node: the modules it may be
  std::vector<std::uint32_t> node_of_stack_;
  FlatMap<std::uint32_t> by_step_;
  std::vector<ModuleNode> nodes_;
};

}  // namespace

std::vector<ModuleNode> modules_at(const Store& store, const DeviceRecord& record,
                                   const AllocationLabels& labels, Moment moment) {
  Tree tree(store, record);
  for (std::size_t row = 0; row < record.allocations.size(); ++row) {
    if (record.allocations.is_allocated_at(row, moment)) tree.add(row, labels.source[row]);
  }
  return tree.finish();
}

std::optional<std::size_t> main_module(const Store& store, const std::vector<ModuleNode>& modules,
                                       MemorySource source, std::uint64_t source_bytes) {
  std::optional<std::size_t> main;
  std::uint32_t inside = ModuleNode::kNoParent;
  for (std::uint32_t node = 0; node < modules.size() && source_bytes > 0; ++node) {
    if (modules[node].parent != inside || 2 * modules[node].by_source[source] < source_bytes)
      continue;
    inside = node;
    // A line of torch.nn is many modules: what calls them says more.
    const bool is_named = !modules[node].name.empty();
    if (is_named || !is_torch_module(store, modules[node].frame)) main = node;
  }
  return main;
}

}  // namespace gpumemprof
