#include "analysis/compare/compare.h"

#include <algorithm>
#include <optional>

#include "analysis/code/user_frame.h"
#include "analysis/code/whence.h"
#include "analysis/modules/module_index.h"
#include "base/flat_map.h"
#include "base/interner.h"
#include "event/memory_source.h"

namespace gpumemprof {
namespace {

constexpr std::uint64_t kNothing = 1;     // the key for no stack
constexpr std::uint64_t kInBackward = 2;  // mixed into the keys of backward allocations

std::uint64_t mixed(std::uint64_t hash, std::uint64_t more) {
  hash = (hash ^ more) * 0x9E3779B97F4A7C15ULL;
  hash ^= hash >> 29;
  return hash == FlatMap<std::uint32_t>::kEmpty ? 0 : hash;
}

// Turns a group's displayed text into a number that is the same on both sides.
class Keys {
 public:
  Keys(const ComparedSide& side, GroupBy by) : side_(side), by_(by) {
    const Store& store = *side.store;
    for (const Frame& frame : store.frames()) {
      frame_keys_.push_back(
          mixed(mixed(hash_bytes(store.text(frame.name)), hash_bytes(store.text(frame.file))),
                frame.line));
    }
    if (by == GroupBy::module && store.has_module_numbers()) modules_.emplace(store);
    if (by != GroupBy::stack) return;
    const StackTrie& stacks = store.stacks();
    for (std::size_t index = 0; index < stacks.size(); ++index) {
      const StackId caller = stacks.callers()[index];
      const std::uint64_t before = caller.is_none() ? 7 : stack_keys_[caller.index];
      stack_keys_.push_back(mixed(before, frame_keys_[stacks.frames()[index].index]));
    }
  }

  // Fills in the group's name.
  std::uint64_t key(AllocationId row, ComparedGroup& group) {
    const DeviceRecord& record = *side_.record;
    const auto [stack, is_backward] = whence(record, row.index);
    switch (by_) {
      case GroupBy::source:
        group.name = memory_source_name(record.labels.source[row.index]);
        return hash_bytes(group.name);
      case GroupBy::size:
        group.name = size_class_name(size_class(record.allocations.size_bytes[row.index]));
        return hash_bytes(group.name);
      case GroupBy::stack:
        group.stack = stack;
        group.is_backward = is_backward;
        if (group.is_backward) return mixed(stack_keys_[stack.index], kInBackward);
        return stack.is_none() ? kNothing : stack_keys_[stack.index];
      case GroupBy::module:
        if (modules_) {
          const std::uint32_t entry = modules_->of(record, record.labels, row.index);
          if (entry == kNoModule) return kNothing;
          group.name = modules_->layer_name(entry);
          return hash_bytes(group.name);
        }
        group.frame = module_frame(*side_.store, stack);
        break;
      case GroupBy::line:
        if (const StackId line = line_part(*side_.store, stack); !line.is_none())
          group.frame = side_.store->stacks().frame(line);
        group.is_backward = is_backward;
        if (group.is_backward) return mixed(frame_keys_[group.frame.index], kInBackward);
        break;
    }
    return group.frame.is_none() ? kNothing : frame_keys_[group.frame.index];
  }

 private:
  const ComparedSide& side_;
  GroupBy by_;
  std::vector<std::uint64_t> frame_keys_;
  std::vector<std::uint64_t> stack_keys_;
  std::optional<ModuleIndex> modules_;  // by module, if modules are distinguished
};

class Comparer {
 public:
  explicit Comparer(GroupBy by) : by_(by) {}

  void add(const ComparedSide& side, bool is_first) {
    Keys keys(side, by_);
    const AllocationColumns& rows = side.record->allocations;
    const Moment moment = moment_of(side.position);
    for (const AllocationId row : side.live->active_at(side.position)) {
      if (!rows.is_allocated_at(row.index, moment)) continue;
      ComparedGroup named;
      named.is_of_first = is_first;
      ComparedGroup& group = group_of(keys.key(row, named), named);
      const std::uint64_t bytes = rows.size_bytes[row.index];
      const std::uint64_t own =
          by_ == GroupBy::source ? std::min(bytes, rows.requested_bytes[row.index]) : bytes;
      (is_first ? group.first_bytes : group.second_bytes) += own;
      ++(is_first ? group.first_blocks : group.second_blocks);
      (is_first ? result_.first_bytes : result_.second_bytes) += bytes;
      if (own < bytes) add_rounding(bytes - own, is_first);
    }
  }

  Comparison finish() {
    const auto difference = [](const ComparedGroup& group) {
      return group.first_bytes > group.second_bytes ? group.first_bytes - group.second_bytes
                                                    : group.second_bytes - group.first_bytes;
    };
    std::stable_sort(result_.groups.begin(), result_.groups.end(),
                     [&](const ComparedGroup& a, const ComparedGroup& b) {
                       if (difference(a) != difference(b)) return difference(a) > difference(b);
                       return a.first_bytes > b.first_bytes;
                     });
    return std::move(result_);
  }

 private:
  // By source, rounding belongs to no source.
  void add_rounding(std::uint64_t bytes, bool is_first) {
    ComparedGroup named;
    named.name = "rounding";
    ComparedGroup& group = group_of(hash_bytes(named.name), named);
    (is_first ? group.first_bytes : group.second_bytes) += bytes;
  }

  ComparedGroup& group_of(std::uint64_t key, const ComparedGroup& named) {
    const auto next = static_cast<std::uint32_t>(result_.groups.size());
    const std::uint32_t index = by_key_.find_or_insert(key, next);
    if (index == next) result_.groups.push_back(named);
    return result_.groups[index];
  }

  GroupBy by_;
  FlatMap<std::uint32_t> by_key_;
  Comparison result_;
};

}  // namespace

Comparison compare(const ComparedSide& first, const ComparedSide& second, GroupBy by) {
  Comparer comparer(by);
  comparer.add(first, true);
  comparer.add(second, false);
  return comparer.finish();
}

}  // namespace gpumemprof
