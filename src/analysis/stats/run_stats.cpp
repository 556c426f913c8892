#include "analysis/stats/run_stats.h"

#include <algorithm>

#include "analysis/code/user_frame.h"
#include "analysis/timeline/grouping.h"

namespace gpumemprof {
namespace {

// 10 µs, 100 µs, … 100 s, and longer.
std::vector<LifetimeBin> empty_lifetimes() {
  constexpr std::int64_t kFirst = 10'000;
  constexpr std::int64_t kLast = 100'000'000'000;
  constexpr std::int64_t kStep = 10;
  std::vector<LifetimeBin> bins;
  for (std::int64_t below = kFirst; below <= kLast; below *= kStep) bins.push_back({below, {}});
  bins.push_back({kUnknownTime, {}});
  return bins;
}

void count_lifetime(const AllocationRow& row, DeviceStats& stats) {
  if (row.free == kNoEvent) {
    stats.not_freed.add(row.size_bytes);
    return;
  }
  stats.freed.add(row.size_bytes);
  if (row.lifetime_ns == kUnknownTime) {
    stats.untimed.add(row.size_bytes);
    return;
  }
  const auto bin = std::ranges::find_if(stats.lifetimes, [&](const LifetimeBin& one) {
    return one.below_ns == kUnknownTime || row.lifetime_ns < one.below_ns;
  });
  bin->freed.add(row.size_bytes);
}

void count_in_line(const AllocationRow& row, LineStats& line) {
  line.made.add(row.size_bytes);
  line.largest_bytes = std::max(line.largest_bytes, row.size_bytes);
  if (row.free == kNoEvent) line.not_freed.add(row.size_bytes);
  if (row.lifetime_ns == kUnknownTime) return;
  ++line.timed;
  line.lifetime_sum_ns += static_cast<double>(row.lifetime_ns);
}

}  // namespace

void RunStats::add(const Store& store, const AllocationRow& row) {
  Device& device = devices_[row.device];
  DeviceStats& stats = device.stats;
  if (stats.lifetimes.empty()) {
    stats.device = row.device;
    stats.lifetimes = empty_lifetimes();
  }
  if (row.birth == kNoEvent) {
    stats.from_before.add(row.size_bytes);
  } else {
    stats.made.add(row.size_bytes);
    stats.requested_bytes += row.requested_bytes;
  }
  stats.by_size[size_class(row.size_bytes)].add(row.size_bytes);
  count_lifetime(row, stats);
  const FrameId frame = line_of(store, row.stack);
  const std::uint64_t key = std::uint64_t{frame.index} << 1U | (row.is_backward ? 1 : 0);
  const auto [known, is_new] = device.line_of_frame.try_emplace(key, stats.lines.size());
  if (is_new) {
    stats.lines.emplace_back();
    stats.lines.back().frame = frame;
    stats.lines.back().is_backward = row.is_backward;
  }
  LineStats& line = stats.lines[known->second];
  count_in_line(row, line);
  const auto moment = moments_.find(row.device);
  if (moment != moments_.end() && row.is_allocated_at(moment->second))
    line.at_moment.add(row.size_bytes);
}

// Finding it walks the stack; few stacks make most allocations.
FrameId RunStats::line_of(const Store& store, StackId stack) {
  if (stack.is_none()) return {};
  const auto [known, is_new] = line_of_stack_.try_emplace(stack.index);
  if (is_new) {
    const StackId part = line_part(store, stack);
    if (!part.is_none()) known->second = store.stacks().frame(part);
  }
  return known->second;
}

std::vector<DeviceStats> RunStats::take() {
  std::vector<DeviceStats> all;
  for (auto& [number, device] : devices_) all.push_back(std::move(device.stats));
  devices_.clear();
  return all;
}

}  // namespace gpumemprof
