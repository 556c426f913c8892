#include "analysis/timeline/grouping.h"

#include <algorithm>
#include <array>
#include <bit>
#include <map>

#include "analysis/code/code_kind.h"
#include "analysis/code/user_frame.h"
#include "analysis/code/whence.h"
#include "analysis/modules/module_index.h"
#include "base/bytes.h"
#include "base/flat_map.h"
#include "event/memory_source.h"

namespace gpumemprof {
namespace {

constexpr std::string_view kNames[] = {"source", "module", "line", "stack", "size"};

// A group before it is known whether it is one of the few.
struct Candidate {
  Group group;
  double bytes_times_events = 0;
  std::uint64_t bytes_at_peak = 0;
};

class Grouper {
 public:
  Grouper(const Store& store, const DeviceRecord& record, std::uint32_t peak_event, GroupBy by)
      : store_(store),
        record_(record),
        peak_(peak_event == kNoEvent ? Moment::start() : Moment::after(peak_event)),
        by_(by) {
    if (by == GroupBy::source) add_sources();
    if (by == GroupBy::module && store.has_module_numbers()) modules_.emplace(store);
    if (by == GroupBy::line || by == GroupBy::module) frame_of_stack_.resize(stack_slots(), kUnset);
  }

  // `given`: the groups, if they are not to be chosen here.
  Grouping run(const std::vector<Group>* given = nullptr) {
    const std::size_t rows = record_.allocations.size();
    Column<std::uint32_t> candidate_of;
    candidate_of.reserve(rows);
    for (std::size_t row = 0; row < rows; ++row) {
      candidate_of.push_unchecked(candidate(row));
      weigh(candidates_[candidate_of.back()], row);
    }
    Grouping grouping;
    grouping.by = by_;
    if (given != nullptr) grouping.groups = *given;
    const std::vector<std::uint8_t> place =
        given == nullptr ? choose(grouping.groups) : places_in(*given);
    if (by_ == GroupBy::source) grouping.rounding_group = place.back();
    grouping.group_of_allocation.reserve(rows);
    for (const std::uint32_t index : candidate_of)
      grouping.group_of_allocation.push_unchecked(place[index]);
    return grouping;
  }

 private:
  static constexpr std::uint32_t kUnset = FrameId::kNone - 1;
  static constexpr std::uint64_t kInBackward = std::uint64_t{1} << 32;

  // One group for each source, in their order, and the rounding last.
  void add_sources() {
    std::array<std::uint64_t, kMemorySourceCount> rows{};
    for (const MemorySource source : record_.labels.source)
      ++rows[static_cast<std::size_t>(source)];
    for (const MemorySourceInfo& info : kMemorySourceTable) {
      const auto source = static_cast<std::size_t>(info.source);
      if (!info.is_listed(rows[source])) continue;
      place_of_source_[source] = static_cast<std::uint32_t>(candidates_.size());
      candidates_.push_back({{std::string(info.name), {}, {}}});
    }
    candidates_.push_back({{"rounding", {}, {}}});
  }

  [[nodiscard]] std::size_t stack_slots() const { return store_.stacks().size() + 1; }
  [[nodiscard]] std::size_t slot(StackId stack) const {
    return stack.is_none() ? store_.stacks().size() : stack.index;
  }

  std::uint32_t candidate(std::size_t row) {
    switch (by_) {
      case GroupBy::source:
        return place_of_source_[static_cast<std::size_t>(record_.labels.source[row])];
      case GroupBy::size: {
        const unsigned sizes = size_class(record_.allocations.size_bytes[row]);
        return known(sizes, {size_class_name(sizes), {}, {}});
      }
      case GroupBy::stack: {
        const Whence from = whence(record_, row);
        const std::uint64_t key = slot(from.stack) | (from.is_backward ? kInBackward : 0);
        return known(key, {"", {}, from.stack, 1, false, from.is_backward});
      }
      case GroupBy::module:
        if (modules_) return of_module(modules_->of(record_, record_.labels, row));
        break;
      case GroupBy::line:
        break;
    }
    const Whence from = whence(record_, row);
    const FrameId frame = frame_of(from.stack);
    const bool is_backward = by_ == GroupBy::line && from.is_backward;
    return known(frame.index | (is_backward ? kInBackward : 0),
                 {"", frame, {}, 1, false, is_backward});
  }

  // Layers of one kind are one group: a deep model has hundreds of modules.
  std::uint32_t of_module(std::uint32_t entry) {
    if (entry == kNoModule) return known(kNoModule, {});
    if (candidate_of_module_.empty())
      candidate_of_module_.resize(modules_->entries().size(), kUnset);
    std::uint32_t& candidate = candidate_of_module_[entry];
    if (candidate == kUnset) {
      std::string name = modules_->layer_name(entry);
      const auto next = static_cast<std::uint32_t>(by_name_.size());
      candidate = known(by_name_.try_emplace(name, next).first->second, {name, {}, {}});
    }
    return candidate;
  }

  FrameId frame_of(StackId stack) {
    std::uint32_t& frame = frame_of_stack_[slot(stack)];
    if (frame == kUnset) {
      FrameId found;
      if (by_ == GroupBy::module) {
        found = module_frame(store_, stack);
      } else if (const StackId line = line_part(store_, stack); !line.is_none()) {
        found = store_.stacks().frame(line);
      }
      frame = found.index;
    }
    FrameId result;
    result.index = frame;
    return result;
  }

  std::uint32_t known(std::uint64_t key, Group group) {
    const auto next = static_cast<std::uint32_t>(candidates_.size());
    const std::uint32_t index = by_key_.find_or_insert(key, next);
    if (index == next) candidates_.push_back({std::move(group)});
    return index;
  }

  void weigh(Candidate& candidate, std::size_t row) const {
    const AllocationColumns& allocations = record_.allocations;
    const std::uint32_t birth = allocations.alloc_event[row];
    const std::uint32_t death = allocations.free_requested_event[row];
    const double from = birth == kNoEvent ? 0.0 : birth;
    const double to = death == kNoEvent ? static_cast<double>(record_.events.size()) : death;
    const auto bytes = static_cast<double>(allocations.size_bytes[row]);
    candidate.bytes_times_events += bytes * std::max(to - from, 1.0);
    if (allocations.is_allocated_at(row, peak_))
      candidate.bytes_at_peak += allocations.size_bytes[row];
  }

  // Fills `groups` and returns where each candidate went.
  std::vector<std::uint8_t> choose(std::vector<Group>& groups) const {
    std::vector<std::uint32_t> order(candidates_.size());
    for (std::uint32_t index = 0; index < order.size(); ++index) order[index] = index;
    if (by_ != GroupBy::source) sort_by_weight(order);
    const bool has_rest = order.size() > Grouping::kMostGroups;
    const std::size_t shown = has_rest ? Grouping::kMostGroups - 1 : order.size();
    std::vector<std::uint8_t> place(candidates_.size(), static_cast<std::uint8_t>(shown));
    for (std::size_t index = 0; index < shown; ++index) {
      place[order[index]] = static_cast<std::uint8_t>(index);
      groups.push_back(candidates_[order[index]].group);
    }
    if (has_rest) groups.push_back({"", {}, {}, order.size() - shown, true});
    return place;
  }

  // Where each candidate is among groups that were chosen elsewhere.
  [[nodiscard]] std::vector<std::uint8_t> places_in(const std::vector<Group>& groups) const {
    const auto is_same = [](const Group& a, const Group& b) {
      return !a.is_rest && !a.is_undivided && a.name == b.name && a.frame == b.frame &&
             a.stack == b.stack && a.is_backward == b.is_backward;
    };
    const auto rest = std::ranges::find_if(groups, &Group::is_rest);
    std::vector<std::uint8_t> places;
    for (const Candidate& candidate : candidates_) {
      const auto found = std::ranges::find_if(
          groups, [&](const Group& group) { return is_same(group, candidate.group); });
      const auto place = found == groups.end() ? rest : found;
      places.push_back(static_cast<std::uint8_t>(
          std::min<std::ptrdiff_t>(place - groups.begin(), std::ssize(groups) - 1)));
    }
    return places;
  }

  void sort_by_weight(std::vector<std::uint32_t>& order) const {
    double all = 1;
    double peak = 1;
    for (const Candidate& candidate : candidates_) {
      all += candidate.bytes_times_events;
      peak += static_cast<double>(candidate.bytes_at_peak);
    }
    const auto weight = [&](std::uint32_t index) {
      const Candidate& candidate = candidates_[index];
      return candidate.bytes_times_events / all +
             static_cast<double>(candidate.bytes_at_peak) / peak;
    };
    std::stable_sort(order.begin(), order.end(),
                     [&](std::uint32_t a, std::uint32_t b) { return weight(a) > weight(b); });
  }

  const Store& store_;
  const DeviceRecord& record_;
  Moment peak_;
  GroupBy by_;
  std::vector<Candidate> candidates_;
  std::array<std::uint32_t, kMemorySourceCount> place_of_source_{};
  FlatMap<std::uint32_t> by_key_;
  std::vector<std::uint32_t> frame_of_stack_;
  std::optional<ModuleIndex> modules_;  // by module, if modules are distinguished
  std::vector<std::uint32_t> candidate_of_module_;
  std::map<std::string, std::uint32_t> by_name_;
};

}  // namespace

std::string_view group_by_name(GroupBy by) { return kNames[static_cast<std::size_t>(by)]; }

FrameId module_frame(const Store& store, StackId stack) {
  for (StackId part = stack; !part.is_none(); part = store.stacks().caller(part)) {
    const FrameId frame = store.stacks().frame(part);
    if (is_module_forward(store, frame)) return frame;
  }
  return {};
}

unsigned size_class(std::uint64_t size_bytes) {
  constexpr unsigned kSmallest = 9;  // blocks are multiples of 512 bytes
  // In factors of four: 512 B, 2 KiB, 8 KiB, …
  const auto bits = static_cast<unsigned>(std::bit_width(size_bytes > 0 ? size_bytes - 1 : 0));
  if (bits <= kSmallest) return kSmallest;
  return kSmallest + (bits - kSmallest + 1) / 2 * 2;
}

std::string size_class_name(unsigned size_class) {
  if (size_class >= 63) return "larger";
  return "up to " + format_bytes(std::uint64_t{1} << size_class);
}

Grouping make_grouping(const Store& store, const DeviceRecord& record, std::uint32_t peak_event,
                       GroupBy by) {
  return Grouper(store, record, peak_event, by).run();
}

Grouping make_grouping_as(const Store& store, const DeviceRecord& record, GroupBy by,
                          const std::vector<Group>& groups) {
  return Grouper(store, record, kNoEvent, by).run(&groups);
}

bool has_sources(const DeviceRecord& record) {
  return record.labels.source.size() == record.allocations.size();
}

}  // namespace gpumemprof
