#include "analysis/fragmentation/pins.h"

#include <algorithm>
#include <unordered_map>

#include "analysis/code/user_frame.h"
#include "replay/layout.h"

namespace gpumemprof {
namespace {

// Allocations by address, to find the age of a block.
std::unordered_map<std::uint64_t, std::uint32_t> birth_by_address(const DeviceRecord& record,
                                                                  Moment moment) {
  std::unordered_map<std::uint64_t, std::uint32_t> births;
  for (std::size_t row = 0; row < record.allocations.size(); ++row) {
    if (record.allocations.is_active_at(row, moment)) {
      births[record.allocations.address[row]] = record.allocations.alloc_event[row];
    }
  }
  return births;
}

bool is_older(std::uint32_t birth, std::uint32_t than) {
  if (birth == kNoEvent || than == kNoEvent) return birth == kNoEvent && than != kNoEvent;
  return birth < than;
}

// The stream with the most memory in use: the one the program mainly runs on.
std::uint32_t busiest_stream(const ListedState& layout) {
  std::unordered_map<std::uint32_t, std::uint64_t> used;
  for (std::size_t index = 0; index < layout.segments.size(); ++index) {
    for (const BlockState& block : layout.blocks_of(index)) {
      if (block.state != BlockStateKind::inactive)
        used[layout.segments[index].stream] += block.size_bytes;
    }
  }
  std::uint32_t busiest = layout.segments.empty() ? 0 : layout.segments.front().stream;
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
  const ListedState layout = layout_at(record, moment);
  const auto births = birth_by_address(record, moment);
  const std::uint32_t main_stream = busiest_stream(layout);
  PinReport report;
  for (std::size_t index = 0; index < layout.segments.size(); ++index) {
    const SegmentState& state = layout.segments[index];
    PinnedSegment segment{state.address, state.size_bytes, 0, 0, 0, 0, {}};
    for (const BlockState& block : layout.blocks_of(index)) {
      if (block.state == BlockStateKind::inactive) {
        segment.free_bytes += block.size_bytes;
        continue;
      }
      const std::uint32_t birth = births.at(block.address);
      if (segment.blocks++ == 0 || is_older(birth, segment.pin_event)) {
        segment.pin_bytes = block.size_bytes;
        segment.pin_event = birth;
        segment.pin_stack = block.stack;
      }
    }
    FreeShares& shares = report.shares;
    shares.free_bytes += segment.free_bytes;
    (state.stream != main_stream ? shares.other_stream_bytes
     : segment.blocks > 0        ? shares.pinned_bytes
                                 : shares.surplus_bytes) += segment.free_bytes;
    if (segment.blocks > 0 && segment.free_bytes > 0) report.segments.push_back(segment);
  }
  sort_by_free_bytes(report.segments);
  report.lines = sum_by_line(report.segments, store);
  return report;
}

}  // namespace gpumemprof
