// Which settings would serve this run best: tries the sensible ones, each with the least memory it
// survives on.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "event/alloc_conf.h"
#include "sim/simulate.h"

namespace gpumemprof::sim {

struct MinMemory {
  std::uint64_t limit_bytes = 0;
  std::uint64_t num_alloc_retries = 0;  // under that limit: many retries mean a slow run
};

// The lowest limit on reserved memory under which the run never runs out, found by bisection to the
// granularity. Survival is assumed to be monotone in the limit, which is nearly always true of best
// fit. Nothing where the run fails even without a limit: a request larger than any device.
std::optional<MinMemory> find_min_memory(const RequestColumns& requests,
                                         const SimulationOptions& options,
                                         std::uint64_t granularity_bytes = 2 * kMiB);

// A dozen or more settings worth trying, the defaults first; only those the version supports.
std::vector<AllocConf> sensible_settings(TorchVersion version);

struct Candidate {
  AllocConf conf;
  SimulationResult result;  // under the requested limit
  std::optional<MinMemory> min_memory;
};

struct SearchOptions {
  TorchVersion version;
  MemoryLimit limit;
  std::uint64_t device_total_bytes = 0;                               // 0: unknown
  std::function<void(std::size_t done, std::size_t total)> progress;  // may be empty
};

// Best first: those that never run out of memory under the limit, then by the least reserved,
// retries, the least memory they survive on, and device calls.
Result<std::vector<Candidate>> search(const RequestColumns& requests,
                                      const std::vector<AllocConf>& settings,
                                      const SearchOptions& options);

}  // namespace gpumemprof::sim
