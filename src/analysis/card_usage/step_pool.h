// StepPool: what the pool reserved in each training step, and what the process held outside of it.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "analysis/sources/sources.h"
#include "store/store.h"

namespace gpumemprof {

struct StepPool {
  std::uint64_t reserved_bytes = 0;  // the most in the step
  // The most that samples show; of a step without a sample, what the last one before it showed.
  // None: no sample says so.
  std::optional<std::uint64_t> outside_bytes;
};

struct PoolOverSteps {
  std::vector<StepPool> steps;  // one for each of those given
  // The least that was free on the card at any sample, for all processes.
  std::optional<std::uint64_t> least_free_bytes;
  std::optional<std::uint64_t> most_outside_bytes;
};

// `samples`: of all devices, in order; `steps`: those of the device.
PoolOverSteps pool_over_steps(const DeviceRecord& record, const std::vector<DeviceSample>& samples,
                              const std::vector<StepFigures>& steps);

}  // namespace gpumemprof
