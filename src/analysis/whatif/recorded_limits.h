// What a recorded run is checked against: the versions of torch and the memory limits that it may
// have had.
#pragma once

#include <optional>
#include <vector>

#include "sim/allocator/rules.h"
#include "sim/verify.h"
#include "store/store.h"

namespace gpumemprof {

// The one that the recording states, or all whose rules differ.
std::vector<TorchVersion> recorded_versions(const Store& store);
// To be tried in this order; none: as inferred.
std::vector<std::optional<sim::MemoryLimit>> recorded_limits(const Store& store,
                                                             DeviceIndex device);
// The less, the better the rules fit.
std::uint64_t mismatches_of(const sim::Verification& verified);

}  // namespace gpumemprof
