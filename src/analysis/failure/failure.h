// Failure: what a user wants to know at the moment a program runs out of memory: why, who holds the
// memory, what is new since the last step that fitted, and what would have helped.
//
// Read while the program is still failing, so there is little time: one device, one moment, and
// simulations only until a deadline.
#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <vector>

#include "analysis/advice/advice.h"
#include "analysis/overview/overview.h"

namespace gpumemprof {

struct FailureOptions {
  // The failed allocation is the last one before this time; none: the last of all.
  std::optional<std::int64_t> until_unix_ns;
  std::optional<DeviceIndex> device;  // none: the device that failed last
  // The failure was not reported by PyTorch's allocator but by the driver or a library: the last
  // recorded moment is explained.
  bool is_outside_allocator = false;
  SimulationDeadline deadline;
};

// A tensor that was live, by the name the recording has for it.
struct HeldTensor {
  StringId name;  // none: it has no name
  MemorySource source = MemorySource::unknown;
  StackId stack;
  std::uint64_t bytes = 0;
  std::uint32_t count = 1;  // of this size and name, or allocated by this stack
};

struct GrownLine {
  LivePlace line;
  std::uint64_t added_bytes = 0;
};

// The last step that ended before the failure, at its peak.
struct FittingStep {
  std::uint32_t step = 0;
  std::uint64_t peak_bytes = 0;
  std::vector<GrownLine> grown;  // what holds more now than then, most first
};

struct Failure {
  DeviceIndex device = 0;
  std::string device_name;
  std::uint64_t ooms = 0;        // failed allocations until then, this one included
  std::optional<OomReport> oom;  // none: PyTorch's allocator did not fail
  When when;
  FreeMemory memory;                    // of the pool at that moment
  std::optional<CardUsage> card_usage;  // at the last sample
  std::uint64_t rounding_bytes = 0;
  SourceBytes sources{};
  std::vector<LiveLine> lines;        // most bytes first
  std::vector<HeldTensor> largest;    // a few, most bytes first
  std::optional<FittingStep> before;  // none: there was no step before it
  Growth growth;
  std::optional<DeviceLeaks> leaks;  // looked for if steps of training show no growth
};

// An Error if there is no such device, or nothing was recorded of it.
Result<Failure> explain_failure(const Store& store, const std::vector<DeviceReplay>& replays,
                                const std::vector<std::vector<PhaseSpan>>& phases,
                                const std::string& path, const FailureOptions& options);

// How much the program may use: what its advice is to fit into. None where that is not known, or
// where no advice could help.
std::optional<std::uint64_t> room_after(const Failure& failure);

}  // namespace gpumemprof
