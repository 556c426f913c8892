// How much reserved memory is not allocated at a moment, and why it cannot simply be used.
//
// A block is only handed out to its own pool and stream, from one segment, in one piece: so what
// counts is the largest free block of the right stream, not the sum.
#pragma once

#include <vector>

#include "event/event.h"
#include "store/store.h"

namespace gpumemprof {

struct StreamShare {
  std::uint32_t stream = 0;
  std::uint64_t reserved_bytes = 0;
  std::uint64_t free_bytes = 0;
  std::uint64_t largest_free_bytes = 0;
};

struct FreeMemory {
  std::uint64_t reserved_bytes = 0;
  std::uint64_t allocated_bytes = 0;
  std::uint64_t waiting_bytes = 0;  // freed, but a stream still uses it
  std::uint64_t free_bytes = 0;

  // Parts of free_bytes:
  std::uint64_t whole_segment_bytes =
      0;  // segments with nothing in them; empty_cache() returns them
  std::uint64_t whole_segments = 0;
  std::uint64_t hole_bytes = 0;  // between or after blocks in use
  std::uint64_t holes = 0;
  std::uint64_t small_pool_bytes = 0;  // of free_bytes: only for requests up to 1 MiB
  std::uint64_t private_pool_bytes =
      0;  // of free_bytes: only for the graph or user pool that owns them

  std::uint64_t largest_hole_bytes = 0;
  std::uint64_t largest_free_bytes = 0;  // gap or whole segment
  std::uint64_t segments = 0;
  std::uint64_t segments_in_use = 0;
  std::uint64_t rounding_bytes = 0;  // active blocks, minus what was requested
  std::vector<StreamShare> streams;  // most reserved first
};

FreeMemory free_memory_at(const DeviceRecord& record, const Store& store, Moment moment);

}  // namespace gpumemprof
