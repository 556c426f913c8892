#include "analysis/fragmentation/free_memory.h"

#include <algorithm>

#include "analysis/moment/pool_state.h"

namespace gpumemprof {
namespace {

class FreeMemorySum {
 public:
  FreeMemorySum(const DeviceRecord& record, const Store& store) : record_(record), store_(store) {}

  FreeMemory run(const PoolState& pool) {
    for (const PoolBlock& block : pool.strays) add_used(block);
    for (const PoolSegment& segment : pool.segments) {
      ++sum_.segments;
      if (segment.is_used()) ++sum_.segments_in_use;
      sum_.reserved_bytes += segment.state.size_bytes;
      share(segment).reserved_bytes += segment.state.size_bytes;
      for (const PoolBlock& block : pool.blocks_of(segment))
        block.is_free() ? add_free(segment, block.size_bytes) : add_used(block);
    }
    std::sort(sum_.streams.begin(), sum_.streams.end(),
              [](const StreamShare& a, const StreamShare& b) {
                return a.reserved_bytes > b.reserved_bytes;
              });
    return std::move(sum_);
  }

 private:
  void add_used(const PoolBlock& block) {
    (block.is_waiting ? sum_.waiting_bytes : sum_.allocated_bytes) += block.size_bytes;
    sum_.rounding_bytes +=
        block.size_bytes - record_.allocations.requested_bytes[block.allocation.index];
  }

  void add_free(const PoolSegment& segment, std::uint64_t bytes) {
    sum_.free_bytes += bytes;
    sum_.largest_free_bytes = std::max(sum_.largest_free_bytes, bytes);
    if (segment.is_used()) {
      sum_.hole_bytes += bytes;
      ++sum_.holes;
      sum_.largest_hole_bytes = std::max(sum_.largest_hole_bytes, bytes);
    } else {
      sum_.whole_segment_bytes += bytes;
      ++sum_.whole_segments;
    }
    if (segment.state.is_small) sum_.small_pool_bytes += bytes;
    if (store_.pool(segment.state.pool) != PoolId{}) sum_.private_pool_bytes += bytes;
    StreamShare& stream = share(segment);
    stream.free_bytes += bytes;
    stream.largest_free_bytes = std::max(stream.largest_free_bytes, bytes);
  }

  StreamShare& share(const PoolSegment& segment) {
    const std::uint32_t stream = segment.state.stream;
    for (StreamShare& known : sum_.streams) {
      if (known.stream == stream) return known;
    }
    sum_.streams.push_back({stream, 0, 0, 0});
    return sum_.streams.back();
  }

  const DeviceRecord& record_;
  const Store& store_;
  FreeMemory sum_;
};

}  // namespace

FreeMemory free_memory_at(const DeviceRecord& record, const Store& store, Moment moment) {
  return FreeMemorySum(record, store).run(pool_state_at(record, moment));
}

}  // namespace gpumemprof
