// Pyramid: a device's memory over a whole run, in buckets of equally many events. What a timeline
// shows of a run that is too long to be in memory.
//
// A bucket is about the moments after each of its events. A timeline's level with fewer buckets
// follows from them exactly: least of least, most of most.
#pragma once

#include <cstdint>
#include <limits>
#include <vector>

#include "analysis/sources/sources.h"

namespace gpumemprof {

struct PyramidBucket {
  std::int64_t first_time_ns = kUnknownTime;  // of its first event
  std::uint64_t min_allocated_bytes = 0;
  std::uint64_t max_allocated_bytes = 0;
  std::uint32_t max_event = 0;  // the first of its events after which that much was allocated
  std::uint64_t min_reserved_bytes = 0;  // 0, like the other: the device has no pool
  std::uint64_t max_reserved_bytes = 0;
  SourceBytes at_max;  // what was allocated after max_event: adds up to max_allocated_bytes
};

struct Pyramid {
  static constexpr std::uint32_t kFewestEvents = 1024;  // of a bucket
  static constexpr std::uint64_t kMostBuckets = std::uint64_t{1} << 18U;

  std::uint32_t events_per_bucket = kFewestEvents;  // a power of two
  std::uint64_t events = 0;                         // of the run
  // Bucket i is about events [i, i + 1) * events_per_bucket; the last one may have fewer.
  std::vector<PyramidBucket> buckets;
};

}  // namespace gpumemprof
