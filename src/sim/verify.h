// Verifies the simulator: a recorded run is simulated under the settings it was recorded with, and
// every placement, segment and counter is compared. The program's requests are extracted from the
// recording on the way; they are the input of every what-if run.
//
// The recording shows that memory was returned to the device, but not why. Where the simulated
// allocator would return the same memory on its own at that point (garbage collection, oversize
// blocks, the retry), the allocator did it; otherwise the program called empty_cache, and that
// becomes a request. Recorded stacks settle doubtful cases: memory that the allocator returned
// because of a request carries that request's stack.
#pragma once

#include <cstdint>
#include <optional>

#include "base/result.h"
#include "event/provenance.h"
#include "sim/limit.h"
#include "sim/recorded_run.h"
#include "sim/requests.h"

namespace gpumemprof::sim {

struct VerifyOptions {
  AllocatorSettings settings;  // as recorded
  AllocatorRules rules;
  std::optional<MemoryLimit> limit;      // none: inferred where the recording proves one
  std::uint64_t device_total_bytes = 0;  // 0: unknown
};

struct Verification {
  std::uint64_t allocations = 0;
  std::uint64_t address_mismatches = 0;
  std::uint64_t segment_calls = 0;  // taken and returned, mapped and unmapped
  std::uint64_t segment_mismatches = 0;
  std::uint64_t counters_compared = 0;
  std::uint64_t counter_mismatches = 0;
  std::uint64_t end_blocks = 0;  // of the state at the end, where the recording has it
  std::uint64_t end_block_mismatches = 0;
  std::uint32_t first_mismatch_event = kNoEvent;

  std::uint64_t empty_caches = 0;   // calls of empty_cache that were recognised
  std::uint64_t unknown_frees = 0;  // of memory that was never allocated: the history has gaps
  std::uint64_t implied_frees = 0;  // never recorded, but the address was handed out again

  MemoryLimit limit;
  std::optional<InferredLimit>
      inferred_limit;  // set where the limit was not given and could be inferred
  Counters counters;   // the simulated run's, at its end
  RequestColumns requests;

  [[nodiscard]] bool is_exact() const {
    return address_mismatches + segment_mismatches + counter_mismatches + end_block_mismatches == 0;
  }
};

Result<Verification> verify(const RecordedRun& run, const VerifyOptions& options);

// Only the program's requests, for callers that need no verification.
Result<RequestColumns> extract_requests(const RecordedRun& run, const VerifyOptions& options);

}  // namespace gpumemprof::sim
