// TracedMemory: the memory events of a profiler's trace, turned into a recording.
//
// A trace says when blocks were allocated and freed, their addresses and sizes, and what the
// allocator had allocated after each. It has no segments, so reserved memory and fragmentation are
// unknown. Blocks that are older than the trace show when they are freed; the rest of what was
// allocated before is one block of unknown origin.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "event/event_sink.h"

namespace gpumemprof {

struct TracedBlock {
  std::int64_t time_ns = kUnknownTime;
  std::int64_t bytes = 0;  // negative: freed
  std::uint64_t address = 0;
  std::int64_t device_type = 0;  // torch's numbers: 0 is the CPU, 1 CUDA
  std::int64_t device_id = 0;    // negative: the only one
  // After the event, as the allocator counts.
  std::optional<std::uint64_t> total_allocated_bytes;
  std::optional<std::uint64_t> total_reserved_bytes;
};

struct TracedStep {
  std::string name;
  std::int64_t start_ns = kUnknownTime;
  std::int64_t end_ns = kUnknownTime;
};

// Delivers the events of the kind of device that matters: of all but the CPU, the one with most
// events; the CPU where there is no other. Sets the origin. So many more events of the trace were
// unreadable.
void deliver_traced_memory(std::vector<TracedBlock> blocks, const std::vector<TracedStep>& steps,
                           const std::optional<CutPoint>& cut, std::uint64_t unreadable,
                           EventSink& sink);

}  // namespace gpumemprof
