#include "analysis/modules/modules.h"

#include <algorithm>
#include <ranges>

#include "analysis/code/code_kind.h"
#include "analysis/code/user_frame.h"
#include "analysis/code/whence.h"
#include "analysis/modules/module_index.h"
#include "analysis/modules/module_names.h"
#include "base/flat_map.h"

namespace gpumemprof {
namespace {

// Adds each node's children to it; children were created after their parent.
void sum_up(std::vector<ModuleNode>& nodes) {
  for (std::size_t node = nodes.size(); node-- > 0;) {
    if (nodes[node].parent == ModuleNode::kNoParent) continue;
    ModuleNode& parent = nodes[nodes[node].parent];
    parent.bytes += nodes[node].bytes;
    parent.blocks += nodes[node].blocks;
    for (std::size_t source = 0; source < kMemorySourceCount; ++source)
      parent.by_source.by_source[source] += nodes[node].by_source.by_source[source];
    parent.by_source.rounding += nodes[node].by_source.rounding;
  }
}

// "h.2" comes before "h.10".
bool is_before(std::string_view a, std::string_view b) {
  const auto digits = [](std::string_view text) {
    std::size_t count = 0;
    while (count < text.size() && text[text.size() - 1 - count] >= '0' &&
           text[text.size() - 1 - count] <= '9')
      ++count;
    return count;
  };
  const std::size_t digits_a = digits(a);
  const std::size_t digits_b = digits(b);
  const bool is_one_row = a.substr(0, a.size() - digits_a) == b.substr(0, b.size() - digits_b);
  if (is_one_row && digits_a != digits_b) return digits_a < digits_b;
  return a < b;
}

// Children follow their parent, the largest first.
std::vector<ModuleNode> ordered(const std::vector<ModuleNode>& nodes) {
  std::vector<std::vector<std::uint32_t>> children(nodes.size() + 1);
  for (std::uint32_t node = 0; node < nodes.size(); ++node) {
    const std::uint32_t parent = nodes[node].parent;
    children[parent == ModuleNode::kNoParent ? nodes.size() : parent].push_back(node);
  }
  for (auto& siblings : children) {
    std::stable_sort(siblings.begin(), siblings.end(), [&](std::uint32_t a, std::uint32_t b) {
      if (nodes[a].bytes != nodes[b].bytes) return nodes[a].bytes > nodes[b].bytes;
      return is_before(nodes[a].name, nodes[b].name);
    });
  }
  std::vector<ModuleNode> result;
  std::vector<std::uint32_t> place(nodes.size());
  std::vector<std::uint32_t> open(children.back().rbegin(), children.back().rend());
  while (!open.empty()) {
    const std::uint32_t node = open.back();
    open.pop_back();
    place[node] = static_cast<std::uint32_t>(result.size());
    result.push_back(nodes[node]);
    if (nodes[node].parent != ModuleNode::kNoParent)
      result.back().parent = place[nodes[node].parent];
    open.insert(open.end(), children[node].rbegin(), children[node].rend());
  }
  return result;
}

void add_row(ModuleNode& node, const AllocationColumns& rows, std::size_t row,
             MemorySource source) {
  node.bytes += rows.size_bytes[row];
  node.self_bytes += rows.size_bytes[row];
  ++node.blocks;
  node.by_source.add(source, rows.requested_bytes[row], rows.size_bytes[row]);
}

// Modules by instance: a tree of their paths.
class InstanceTree {
 public:
  InstanceTree(const Store& store, const DeviceRecord& record, const AllocationLabels& labels)
      : record_(record), labels_(labels), index_(store) {
    node_of_entry_.resize(index_.entries().size(), ModuleNode::kNoParent);
  }

  void add(std::size_t row, MemorySource source) {
    const std::uint32_t entry = index_.of(record_, labels_, row);
    if (entry == kNoModule) return;
    add_row(nodes_[node_of(entry)], record_.allocations, row, source);
  }

  std::vector<ModuleNode> finish() {
    sum_up(nodes_);
    return ordered(nodes_);
  }

 private:
  std::uint32_t node_of(std::uint32_t entry) {
    // A loop, since the paths of a forged file may be very deep.
    std::vector<std::uint32_t> missing;
    std::uint32_t parent = ModuleNode::kNoParent;
    for (std::uint32_t at = entry; at != kNoModule; at = index_.around(at)) {
      if (node_of_entry_[at] != ModuleNode::kNoParent) {
        parent = node_of_entry_[at];
        break;
      }
      missing.push_back(at);
    }
    for (const std::uint32_t each : std::views::reverse(missing)) {
      ModuleNode node;
      node.parent = parent;
      node.name = index_.name(each);
      parent = node_of_entry_[each] = static_cast<std::uint32_t>(nodes_.size());
      nodes_.push_back(std::move(node));
    }
    return parent;
  }

  const DeviceRecord& record_;
  const AllocationLabels& labels_;
  ModuleIndex index_;
  std::vector<std::uint32_t> node_of_entry_;
  std::vector<ModuleNode> nodes_;
};

// Modules by the lines of their forward().
class Tree {
 public:
  Tree(const Store& store, const DeviceRecord& record)
      : store_(store),
        record_(record),
        names_(store),
        node_of_stack_(store.stacks().size(), kNotAsked) {}

  void add(std::size_t row, MemorySource source) {
    // What backward allocates belongs to the module whose gradient it computes.
    const StackId stack = whence(record_, row).stack;
    if (stack.is_none()) return;
    const std::uint32_t node = node_of(stack);
    if (node == ModuleNode::kNoParent) return;
    add_row(nodes_[node], record_.allocations, row, source);
  }

  std::vector<ModuleNode> finish() {
    sum_up(nodes_);
    return ordered(nodes_);
  }

 private:
  static constexpr std::uint32_t kNotAsked = ModuleNode::kNoParent - 1;
  static constexpr std::size_t kMostNamed = 20'000;

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

  // The line that calls a module, if it is not in a forward() itself.
  std::uint32_t child_of_caller(std::uint32_t parent, StackId call) {
    constexpr int kMostNative = 32;  // interpreter frames between two Python ones
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
      // A forward() called by another one of the same module, as with super(), belongs to that
      // module.
      candidates_.push_back(modules.empty() ? callers : modules);
    }
    return node;
  }

  const Store& store_;
  const DeviceRecord& record_;
  ModuleNames names_;
  std::vector<std::vector<std::uint32_t>> candidates_;  // by node: the modules it may be
  std::vector<std::uint32_t> node_of_stack_;
  FlatMap<std::uint32_t> by_step_;
  std::vector<ModuleNode> nodes_;
};

template <typename AnyTree>
std::vector<ModuleNode> filled(AnyTree tree, const DeviceRecord& record,
                               const AllocationLabels& labels, Moment moment) {
  for (std::size_t row = 0; row < record.allocations.size(); ++row) {
    if (record.allocations.is_allocated_at(row, moment)) tree.add(row, labels.source[row]);
  }
  return tree.finish();
}

}  // namespace

std::vector<ModuleNode> modules_at(const Store& store, const DeviceRecord& record,
                                   const AllocationLabels& labels, Moment moment) {
  if (store.has_module_numbers())
    return filled(InstanceTree(store, record, labels), record, labels, moment);
  return filled(Tree(store, record), record, labels, moment);
}

std::optional<std::size_t> main_module(const Store& store, const std::vector<ModuleNode>& modules,
                                       MemorySource source, std::uint64_t source_bytes) {
  std::optional<std::size_t> main;
  std::uint32_t inside = ModuleNode::kNoParent;
  for (std::uint32_t node = 0; node < modules.size() && source_bytes > 0; ++node) {
    if (modules[node].parent != inside || 2 * modules[node].by_source[source] < source_bytes)
      continue;
    inside = node;
    // A line of torch.nn stands for many modules: its callers say more.
    const bool is_named = !modules[node].name.empty();
    if (is_named || !is_torch_module(store, modules[node].frame)) main = node;
  }
  return main;
}

}  // namespace gpumemprof
