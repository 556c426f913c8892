// A what-if run: the same requests under other settings, another limit or another torch version.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "base/result.h"
#include "sim/allocator/allocator.h"
#include "sim/requests.h"

namespace gpumemprof::sim {

// Allocated bytes over a run: the most in each stretch of recorded events. What precedes the first
// event counts to the first stretch.
struct AllocatedCurve {
  std::uint32_t events_per_point = 1;
  std::vector<std::uint64_t> most_bytes;
};

struct SimulationOptions {
  AllocatorSettings settings;
  AllocatorRules rules;
  MemoryLimit limit;
  std::uint64_t device_total_bytes = 0;  // 0: unknown
  bool stops_at_first_oom = false;       // when only survival matters
  AllocatedCurve* curve = nullptr;       // is filled, if there is one
};

struct SimulationResult {
  Counters counters;
  std::uint64_t peak_allocated_bytes = 0;
  std::uint64_t peak_reserved_bytes = 0;
  // When reserved memory first reached its peak; reserved − active is lost to fragmentation.
  std::uint64_t active_bytes_at_peak = 0;
  std::uint64_t requested_bytes_at_peak = 0;
  std::uint32_t peak_reserved_event = kNoEvent;
  std::uint32_t first_oom_event = kNoEvent;  // the recorded event at which memory first ran out
  bool is_complete = true;                   // false: stopped at the first out-of-memory

  [[nodiscard]] std::uint64_t num_ooms() const { return counters.num_ooms; }
  // Share of the reserved bytes that was unused when they reached their peak: 0 to 1.
  [[nodiscard]] double fragmentation_at_peak() const;
  // Share of the peak of reserved bytes that the peak of allocated bytes did not need: 0 to 1.
  [[nodiscard]] double reserved_beyond_need() const;
};

// Returns an error where the limit is below the first segment the program needs.
Result<SimulationResult> simulate(const RequestColumns& requests, const SimulationOptions& options);

// The simulated run as an event stream. Times, stacks and labels are those of the recorded events
// the requests come from; addresses, segments and out-of-memory events are the simulation's.
struct SimulatedRun {
  SimulationResult result;
  EventColumns events;
};
Result<SimulatedRun> simulate_events(const RequestColumns& requests,
                                     const SimulationOptions& options,
                                     const EventColumns& recorded);

}  // namespace gpumemprof::sim
