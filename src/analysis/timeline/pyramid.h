// Pyramid: a device's memory over a whole run, in buckets of equally many events. What a timeline
// shows of a run that is too long to be in memory.
//
// A bucket is about the moments after each of its events. A timeline's level with fewer buckets
// follows from them exactly: least of least, most of most.
#pragma once

#include <cstdint>
#include <span>
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
  bool operator==(const PyramidBucket&) const = default;
};

struct Pyramid {
  static constexpr std::uint32_t kFewestEvents = 1024;  // of a bucket
  static constexpr std::uint64_t kMostBuckets = std::uint64_t{1} << 18U;

  std::uint32_t events_per_bucket = kFewestEvents;  // a power of two
  std::uint64_t events = 0;                         // of the run
  // Bucket i is about events [i, i + 1) * events_per_bucket; the last one may have fewer.
  std::vector<PyramidBucket> buckets;
};

// For a run of that many events.
constexpr std::uint32_t pyramid_bucket_events(std::uint64_t events) {
  std::uint64_t size = Pyramid::kFewestEvents;
  while ((events + size - 1) / size > Pyramid::kMostBuckets) size *= 2;
  return static_cast<std::uint32_t>(size);
}

// Makes the buckets of a run whose history comes in parts, one after the other.
class PyramidBuilder {
 public:
  explicit PyramidBuilder(std::uint64_t events) : bucket_events_(pyramid_bucket_events(events)) {}

  // What is allocated after an event; called for each, in order.
  void note(std::uint32_t event, std::uint64_t allocated, const SourceBytes& now) {
    if (event < end_) {
      PyramidBucket& bucket = buckets_.back();
      if (allocated < bucket.min_allocated_bytes) bucket.min_allocated_bytes = allocated;
      if (allocated <= bucket.max_allocated_bytes) return;
      raise(bucket, event, allocated, now);
      return;
    }
    open(event, allocated, now);
  }
  // After the events of a part: its times, and what is reserved. Events [first, end) of the record
  // are those from event `number` of the run on; its segments are numbered like its events.
  void add_part(const DeviceRecord& record, std::size_t first, std::size_t end,
                std::uint32_t number);
  // The buckets that are complete; `is_last`: all of them. The rest stays here.
  std::vector<PyramidBucket> take(bool is_last);

 private:
  static void raise(PyramidBucket& bucket, std::uint32_t event, std::uint64_t allocated,
                    const SourceBytes& now) {
    bucket.max_allocated_bytes = allocated;
    bucket.max_event = event;
    bucket.at_max = now;
  }
  void open(std::uint32_t event, std::uint64_t allocated, const SourceBytes& now);

  std::uint32_t bucket_events_;
  std::uint64_t end_ = 0;           // the first event behind the last bucket
  std::uint64_t first_bucket_ = 0;  // number of the first one that is here
  std::vector<PyramidBucket> buckets_;
  std::uint64_t reserved_ = 0;
};

}  // namespace gpumemprof
