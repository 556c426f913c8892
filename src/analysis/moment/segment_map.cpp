#include "analysis/moment/segment_map.h"

#include <algorithm>

#include "replay/layout.h"

namespace gpumemprof {
namespace {

class Mapper {
 public:
  Mapper(const DeviceRecord& record, const LiveRows& live, Position position)
      : rows_(record.allocations), moment_(moment_of(position)), used_(live.active_at(position)) {
    std::sort(used_.begin(), used_.end(), [&](AllocationId a, AllocationId b) {
      return rows_.address[a.index] < rows_.address[b.index];
    });
    for (const SegmentState& state : segments_at(record, moment_)) add_segment(state);
  }

  SegmentMap map;

 private:
  void add_segment(const SegmentState& state) {
    MappedSegment segment;
    segment.state = state;
    segment.first_block = static_cast<std::uint32_t>(map.blocks.size());
    const std::uint64_t end = state.address + state.size_bytes;
    std::uint64_t position = state.address;
    while (next_ < used_.size() && address(next_) < state.address) ++next_;
    for (; next_ < used_.size() && address(next_) < end; ++next_) {
      add_free(segment, position, address(next_));
      add_used(segment, used_[next_]);
      position = address(next_) + rows_.size_bytes[used_[next_].index];
    }
    add_free(segment, position, end);
    if (segment.free_bytes == 0) segment.pin = AllocationId();
    segment.block_count = static_cast<std::uint32_t>(map.blocks.size()) - segment.first_block;
    map.reserved_bytes += state.size_bytes;
    map.free_bytes += segment.free_bytes;
    map.segments.push_back(segment);
  }

  void add_free(MappedSegment& segment, std::uint64_t from, std::uint64_t to) {
    if (to <= from) return;
    map.blocks.push_back({from, to - from, {}, false});
    segment.free_bytes += to - from;
  }

  void add_used(MappedSegment& segment, AllocationId row) {
    const std::uint64_t size = rows_.size_bytes[row.index];
    const bool is_waiting = !rows_.is_allocated_at(row.index, moment_);
    map.blocks.push_back({rows_.address[row.index], size, row, is_waiting});
    (is_waiting ? map.waiting_bytes : map.allocated_bytes) += size;
    if (segment.pin.is_none() || birth(row) < birth(segment.pin)) segment.pin = row;
  }

  [[nodiscard]] std::uint64_t address(std::size_t index) const {
    return rows_.address[used_[index].index];
  }
  [[nodiscard]] Position birth(AllocationId row) const {
    return birth_position(rows_.alloc_event[row.index]);
  }

  const AllocationColumns& rows_;
  Moment moment_;
  std::vector<AllocationId> used_;
  std::size_t next_ = 0;
};

}  // namespace

SegmentMap segment_map_at(const DeviceRecord& record, const LiveRows& live, Position position) {
  return std::move(Mapper(record, live, position).map);
}

}  // namespace gpumemprof
