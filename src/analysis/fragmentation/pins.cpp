#include "analysis/fragmentation/pins.h"

#include <algorithm>
#include <span>
#include <unordered_map>

#include "analysis/code/user_frame.h"
#include "analysis/moment/pool_state.h"

namespace gpumemprof {
namespace {

// The stream with the most memory in use: the one the program mainly runs on.
std::uint32_t busiest_stream(const PoolState& pool) {
  std::unordered_map<std::uint32_t, std::uint64_t> used;
  for (const PoolSegment& segment : pool.segments) {
    if (!segment.is_used()) continue;
    std::uint64_t& bytes = used[segment.state.stream];
    for (const PoolBlock& block : pool.blocks_of(segment)) {
      if (!block.is_free()) bytes += block.size_bytes;
    }
  }
  std::uint32_t busiest = pool.segments.empty() ? 0 : pool.segments.front().state.stream;
  used.try_emplace(busiest, 0);
  for (const auto& [stream, bytes] : used) {
    if (bytes > used[busiest]) busiest = stream;
  }
  return busiest;
}

template <typename T>
void sort_by_free_bytes(std::vector<T>& items) {
  std::stable_sort(items.begin(), items.end(),
                   [](const T& a, const T& b) { return a.free_bytes > b.free_bytes; });
}

std::vector<PinningLine> sum_by_line(const std::vector<PinnedSegment>& segments,
                                     const Store& store) {
  std::vector<PinningLine> lines;
  for (const PinnedSegment& segment : segments) {
    const FrameId frame = segment.pin_stack.is_none()
                              ? FrameId()
                              : store.stacks().frame(user_part(store, segment.pin_stack));
    auto line = std::find_if(lines.begin(), lines.end(),
                             [&](const PinningLine& known) { return known.frame == frame; });
    if (line == lines.end()) line = lines.insert(line, {frame, 0, 0, 0});
    ++line->segments;
    line->free_bytes += segment.free_bytes;
    line->pin_bytes += segment.pin_bytes;
  }
  sort_by_free_bytes(lines);
  return lines;
}

}  // namespace

PinReport find_pins(const DeviceRecord& record, const Store& store, Moment moment) {
  const AllocationColumns& rows = record.allocations;
  const PoolState pool = pool_state_at(record, moment);
  const std::uint32_t main_stream = busiest_stream(pool);
  PinReport report;
  for (const PoolSegment& segment : pool.segments) {
    FreeShares& shares = report.shares;
    shares.free_bytes += segment.free_bytes;
    (segment.state.stream != main_stream ? shares.other_stream_bytes
     : segment.is_used()                 ? shares.pinned_bytes
                                         : shares.surplus_bytes) += segment.free_bytes;
    const AllocationId pin = segment.pin();
    if (pin.is_none()) continue;
    const std::span<const PoolBlock> blocks = pool.blocks_of(segment);
    const auto used = static_cast<std::uint64_t>(
        std::ranges::count_if(blocks, [](const PoolBlock& block) { return !block.is_free(); }));
    report.segments.push_back({segment.state.address, segment.state.size_bytes, segment.free_bytes,
                               used, rows.size_bytes[pin.index], rows.alloc_event[pin.index],
                               rows.stack[pin.index]});
  }
  sort_by_free_bytes(report.segments);
  report.lines = sum_by_line(report.segments, store);
  return report;
}

}  // namespace gpumemprof
