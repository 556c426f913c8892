// SegmentMap: every segment of a device at a moment with every block in it, including gaps and
// pins.
#pragma once

#include <vector>

#include "analysis/moment/live_rows.h"
#include "store/store.h"

namespace gpumemprof {

struct MappedBlock {
  std::uint64_t address = 0;
  std::uint64_t size_bytes = 0;
  AllocationId allocation;  // none: free
  bool is_waiting = false;  // freed, but a stream still uses it
};

struct MappedSegment {
  SegmentState state;
  std::uint64_t free_bytes = 0;
  // The block that has been in it longest, if it keeps free memory from being returned.
  AllocationId pin;
  std::uint32_t first_block = 0;
  std::uint32_t block_count = 0;
};

struct SegmentMap {
  std::vector<MappedSegment> segments;  // in address order; adjacent mapped pieces are one
  std::vector<MappedBlock> blocks;      // in address order, free ones included
  std::uint64_t reserved_bytes = 0;
  std::uint64_t allocated_bytes = 0;
  std::uint64_t waiting_bytes = 0;
  std::uint64_t free_bytes = 0;
};

SegmentMap segment_map_at(const DeviceRecord& record, const LiveRows& live, Position position);

}  // namespace gpumemprof
