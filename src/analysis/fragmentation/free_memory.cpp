#include "analysis/fragmentation/free_memory.h"

#include <algorithm>

namespace gpumemprof {
namespace {

struct Piece {
  std::uint64_t address;
  std::uint64_t size_bytes;
  std::uint32_t row;
};

void sort_by_address(std::vector<Piece>& pieces) {
  std::sort(pieces.begin(), pieces.end(),
            [](const Piece& a, const Piece& b) { return a.address < b.address; });
}

class Sweep {
 public:
  Sweep(const DeviceRecord& record, const Store& store, Moment moment)
      : record_(record), store_(store) {
    const AllocationColumns& allocations = record.allocations;
    for (std::uint32_t row = 0; row < allocations.size(); ++row) {
      if (!allocations.is_active_at(row, moment)) continue;
      blocks_.push_back({allocations.address[row], allocations.size_bytes[row], row});
      const bool is_allocated = allocations.is_allocated_at(row, moment);
      (is_allocated ? result_.allocated_bytes : result_.waiting_bytes) +=
          allocations.size_bytes[row];
      result_.rounding_bytes += allocations.size_bytes[row] - allocations.requested_bytes[row];
    }
    const SegmentColumns& segments = record.segments;
    for (std::uint32_t row = 0; row < segments.size(); ++row) {
      if (segments.is_reserved_at(row, moment))
        segments_.push_back({segments.address[row], segments.size_bytes[row], row});
    }
    sort_by_address(blocks_);
    sort_by_address(segments_);
    join_mapped_runs();
  }

  FreeMemory run() {
    for (const Piece& segment : segments_) sweep_segment(segment);
    std::sort(result_.streams.begin(), result_.streams.end(),
              [](const StreamShare& a, const StreamShare& b) {
                return a.reserved_bytes > b.reserved_bytes;
              });
    return std::move(result_);
  }

 private:
  void join_mapped_runs() {
    const auto& is_expandable = record_.segments.is_expandable;
    std::vector<Piece> joined;
    for (const Piece& piece : segments_) {
      if (!joined.empty() && is_expandable[piece.row] != 0 &&
          is_expandable[joined.back().row] != 0 &&
          joined.back().address + joined.back().size_bytes == piece.address) {
        joined.back().size_bytes += piece.size_bytes;
      } else {
        joined.push_back(piece);
      }
    }
    segments_ = std::move(joined);
  }

  void sweep_segment(const Piece& segment) {
    const std::uint64_t end = segment.address + segment.size_bytes;
    std::uint64_t position = segment.address;
    bool is_used = false;
    result_.reserved_bytes += segment.size_bytes;
    share(segment.row).reserved_bytes += segment.size_bytes;
    while (next_block_ < blocks_.size() && blocks_[next_block_].address < segment.address)
      ++next_block_;
    std::vector<std::uint64_t> gaps;
    for (; next_block_ < blocks_.size() && blocks_[next_block_].address < end; ++next_block_) {
      const Piece& block = blocks_[next_block_];
      if (block.address > position) gaps.push_back(block.address - position);
      position = block.address + block.size_bytes;
      is_used = true;
    }
    if (position < end) gaps.push_back(end - position);
    for (const std::uint64_t gap : gaps) add_free(segment, gap, is_used);
    ++result_.segments;
    if (is_used) ++result_.segments_in_use;
  }

  void add_free(const Piece& segment, std::uint64_t bytes, bool is_used) {
    result_.free_bytes += bytes;
    result_.largest_free_bytes = std::max(result_.largest_free_bytes, bytes);
    if (is_used) {
      result_.hole_bytes += bytes;
      ++result_.holes;
      result_.largest_hole_bytes = std::max(result_.largest_hole_bytes, bytes);
    } else {
      result_.whole_segment_bytes += bytes;
      ++result_.whole_segments;
    }
    if (record_.segments.is_small[segment.row] != 0) result_.small_pool_bytes += bytes;
    if (store_.pool(record_.segments.pool[segment.row]) != PoolId{})
      result_.private_pool_bytes += bytes;
    StreamShare& stream = share(segment.row);
    stream.free_bytes += bytes;
    stream.largest_free_bytes = std::max(stream.largest_free_bytes, bytes);
  }

  StreamShare& share(std::uint32_t segment_row) {
    const std::uint32_t stream = record_.segments.stream[segment_row];
    for (StreamShare& known : result_.streams) {
      if (known.stream == stream) return known;
    }
    result_.streams.push_back({stream, 0, 0, 0});
    return result_.streams.back();
  }

  const DeviceRecord& record_;
  const Store& store_;
  std::vector<Piece> blocks_;
  std::vector<Piece> segments_;
  std::size_t next_block_ = 0;
  FreeMemory result_;
};

}  // namespace

FreeMemory free_memory_at(const DeviceRecord& record, const Store& store, Moment moment) {
  return Sweep(record, store, moment).run();
}

}  // namespace gpumemprof
