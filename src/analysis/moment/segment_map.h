// SegmentMap: every segment of a device at a moment with every block in it, holes and pins too.
#pragma once

#include <vector>

#include "analysis/moment/live_rows.h"
#include "store/store.h"

namespace gpumemprof {

struct MappedBlock {
  std::uint64_t address = 0;
  std::uint64_t size_bytes = 0;
  AllocationId allocation;  // none: free
  bool is_waiting = false;  // let go, but a stream still uses it
};

struct MappedSegment {
  SegmentState state;
  std::uint64_t free_bytes = 0;
  // The block that has been in it longest, where it keeps free memory from being returned.
  AllocationId pin;
  std::uint32_t first_block = 0;
  std::uint32_t block_count = 0;
};

struct SegmentMap {
  std::vector<MappedSegment> segments;  // in address order; mapped pieces that touch are one
  std::vector<MappedBlock> blocks;      // in address order, free ones included
  std::uint64_t reserved_bytes = 0;
  std::uint64_t allocated_bytes = 0;
  std::uint64_t waiting_bytes = 0;
  std::uint64_t free_bytes = 0;
};

SegmentMap segment_map_at(const DeviceRecord& record, const LiveRows& live, Position position);

}  // namespace gpumemprof
