#include "analysis/range/range_changes.h"

#include <array>

#include "analysis/code/whence.h"
#include "analysis/timeline/grouping.h"
#include "base/flat_map.h"

namespace gpumemprof {
namespace {

constexpr std::string_view kPartNames[] = {"allocated", "freed", "survived"};

// Sums by number: a range may hold millions of allocations, of few lines.
class RangeSums {
 public:
  explicit RangeSums(const DeviceRecord& record) : record_(record) {}

  void add(const RangeRow& row) {
    const std::uint64_t bytes = record_.allocations.size_bytes[row.row];
    all_.add(row, bytes);
    const std::uint32_t code = number_of(row.row);
    codes_[code].second.add(row, bytes);
    if (has_sources(record_))
      sources_[static_cast<std::size_t>(record_.labels.source[row.row])].add(row, bytes);
    if (row.is_freed) add_free(row.row, code, bytes);
  }

  RangeChanges result() && {
    RangeChanges changes;
    changes.all = all_;
    for (const auto& [code, figures] : codes_) changes.by_code.emplace(code, figures);
    for (std::size_t source = 0; source < sources_.size(); ++source) {
      if (sources_[source].allocated.blocks + sources_[source].freed.blocks > 0)
        changes.by_source.emplace(static_cast<MemorySource>(source), sources_[source]);
    }
    for (const Free& free : frees_)
      changes.freed_at[{codes_[free.code].first, free.stack}].add(free.count.bytes,
                                                                  free.count.blocks);
    return changes;
  }

 private:
  struct Free {
    std::uint32_t code = 0;
    StackId stack;
    RangeCount count;
  };

  std::uint32_t number_of(std::size_t row) {
    const auto [stack, is_backward] = whence(record_, row);
    const auto next = static_cast<std::uint32_t>(codes_.size());
    const std::uint32_t number = code_of_stack_.find_or_insert(
        stack.index | (std::uint64_t{is_backward ? 1U : 0U} << 32U), next);
    if (number == next) codes_.push_back({{stack, is_backward}, {}});
    return number;
  }

  void add_free(std::size_t row, std::uint32_t code, std::uint64_t bytes) {
    const StackId stack = record_.events.stack[record_.allocations.free_requested_event[row]];
    const auto next = static_cast<std::uint32_t>(frees_.size());
    const std::uint32_t number =
        free_of_pair_.find_or_insert((std::uint64_t{code} << 32U) | stack.index, next);
    if (number == next) frees_.push_back({code, stack, {}});
    frees_[number].count.add(bytes);
  }

  const DeviceRecord& record_;
  RangeFigures all_;
  std::vector<std::pair<AllocatingCode, RangeFigures>> codes_;
  std::array<RangeFigures, kMemorySourceCount> sources_{};
  std::vector<Free> frees_;
  FlatMap<std::uint32_t> code_of_stack_;
  FlatMap<std::uint32_t> free_of_pair_;
};

}  // namespace

std::string_view range_part_name(RangePart part) {
  return kPartNames[static_cast<std::size_t>(part)];
}

void RangeFigures::add(const RangeRow& row, std::uint64_t bytes) {
  if (row.is_in(RangePart::allocated)) allocated.add(bytes);
  if (row.is_in(RangePart::freed)) freed.add(bytes);
  if (row.is_in(RangePart::survived)) survived.add(bytes);
}

void RangeFigures::add(const RangeFigures& other) {
  allocated.add(other.allocated.bytes, other.allocated.blocks);
  freed.add(other.freed.bytes, other.freed.blocks);
  survived.add(other.survived.bytes, other.survived.blocks);
}

void RangeChanges::add_moved(const RangeChanges& next) {
  const auto add = [](RangeFigures& to, RangeFigures from) {
    from.survived = {};
    to.add(from);
  };
  add(all, next.all);
  for (const auto& [code, figures] : next.by_code) add(by_code[code], figures);
  for (const auto& [source, figures] : next.by_source) add(by_source[source], figures);
  for (const auto& [ends, count] : next.freed_at) freed_at[ends].add(count.bytes, count.blocks);
}

void RangeChanges::add_survived(const RangeChanges& survivors) {
  const auto add = [](RangeFigures& to, const RangeFigures& from) {
    to.survived.add(from.survived.bytes, from.survived.blocks);
  };
  add(all, survivors.all);
  for (const auto& [code, figures] : survivors.by_code) add(by_code[code], figures);
  for (const auto& [source, figures] : survivors.by_source) add(by_source[source], figures);
}

RangeChanges survivors_at(const DeviceRecord& record, const LiveRows& live, Position at,
                          const std::function<bool(std::size_t row)>& is_counted) {
  RangeSums sums(record);
  const Moment moment = moment_of(at);
  for (const AllocationId row : live.active_at(at)) {
    if (record.allocations.is_allocated_at(row.index, moment) && is_counted(row.index))
      sums.add(RangeRow{row.index, true, false});
  }
  return std::move(sums).result();
}

RangeChanges changes_in(const DeviceRecord& record, const LiveRows& live, Position from,
                        Position to) {
  RangeSums sums(record);
  visit_range(record, live, from, to, [&](const RangeRow& row) { sums.add(row); });
  return std::move(sums).result();
}

}  // namespace gpumemprof
