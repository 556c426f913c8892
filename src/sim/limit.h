// The memory limit a recording ran under, where it is not stated: what its out-of-memory events and
// retries prove.
#pragma once

#include <cstdint>
#include <optional>

#include "sim/allocator/rules.h"
#include "sim/recorded_run.h"

namespace gpumemprof::sim {

struct InferredLimit {
  MemoryLimit
      limit;  // the highest consistent with the recording; a device's follows from its free memory
  std::uint64_t low_bytes = 0;     // this much was reserved, or requested successfully
  std::uint64_t high_bytes = 0;    // with one byte more, what failed would have succeeded
  std::uint32_t event = kNoEvent;  // the first event that proves there was a limit
  bool is_from_oom = false;        // false: from a retry
};

// Nothing where no event proves a limit: an empty_cache without stacks looks like a retry, so only
// out-of-memory events, and releases with the stack of the allocation they precede, count.
std::optional<InferredLimit> infer_limit(const RecordedRun& run, const AllocatorSettings& settings);

}  // namespace gpumemprof::sim
