// One device's recorded run, as the simulator reads it. Nothing is copied: the viewed data must
// outlive it.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "event/event.h"
#include "event/recording.h"

namespace gpumemprof::sim {

// Segments (or mapped runs of expandable ones) with all their blocks in address order; segment i
// owns blocks [first_block[i], first_block[i + 1]).
struct SegmentList {
  std::span<const SegmentState> segments;
  std::span<const std::uint32_t> first_block;
  std::span<const BlockState> blocks;

  [[nodiscard]] std::span<const BlockState> blocks_of(std::size_t segment) const {
    return blocks.subspan(first_block[segment], first_block[segment + 1] - first_block[segment]);
  }
};

// A counter as reported by torch.cuda.memory_stats() at the end: "num_ooms",
// "allocated_bytes.all.peak".
struct NamedCounter {
  std::string name;
  std::uint64_t value = 0;
};

struct RecordedRun {
  const EventColumns* events = nullptr;
  std::uint32_t first_event = 0;                 // where to begin: before it the history has gaps
  std::span<const PoolId> pools;                 // what the rows in events->pool and below mean
  std::span<const std::uint32_t> pool_of_event;  // by event; empty: events->pool; kNoPool: default
  SegmentList start;                             // before the first event
  SegmentList end;                               // after the last event
  bool has_end = false;
  std::span<const NamedCounter> counters;  // after the last event, where they are known

  [[nodiscard]] std::uint32_t pool_row(std::size_t event) const {
    if (event < pool_of_event.size()) return pool_of_event[event];
    return events->pool.empty() ? kNoPool : events->pool[event];
  }
};

}  // namespace gpumemprof::sim
