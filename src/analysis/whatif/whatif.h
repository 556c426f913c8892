// What if: a recorded run under other allocator settings, another memory limit or another torch
// version.
//
// First the simulator proves itself on the recording: the same settings must give the same
// placements, segments and counters. Every what-if then starts from the requests that proof
// extracted.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "analysis/completeness/completeness.h"
#include "analysis/fragmentation/pins.h"
#include "base/result.h"
#include "event/alloc_conf.h"
#include "replay/replay.h"
#include "sim/search.h"
#include "sim/simulate.h"
#include "sim/verify.h"
#include "store/store.h"

namespace gpumemprof {

struct WhatIfOptions {
  std::vector<std::string> alloc_confs;               // PYTORCH_CUDA_ALLOC_CONF strings to try
  std::vector<std::uint64_t> memory_limits;           // bytes; each is tried with each setting
  std::optional<TorchVersion> version;                // none: the rules that fit the recording best
  std::optional<std::uint64_t> recorded_limit_bytes;  // the limit the recording ran under
  bool searches = false;                              // try the sensible settings and rank them
  bool finds_min_memory = false;                      // also for the requested runs
  std::optional<DeviceIndex> device;
  std::function<void(std::size_t done, std::size_t total)> progress;  // may be empty
};

struct WhatIfRun {
  std::string alloc_conf;                            // canonical; empty: the defaults
  std::uint64_t memory_limit_bytes = sim::kNoLimit;  // kNoLimit: none
  sim::SimulationResult result;
  std::optional<std::uint64_t> min_memory_bytes;
  bool is_recorded = false;  // under the recorded settings and limit
};

struct DeviceWhatIf {
  DeviceIndex device = 0;
  std::string name;
  TorchVersion version;
  bool is_version_inferred = false;
  std::string recorded_conf;
  sim::Verification verified;
  std::uint32_t first_event =
      0;  // earlier events were skipped because their state is not known exactly
  std::uint32_t lead_in = 0;    // of an excerpt: events before the first that is simulated
  std::vector<WhatIfRun> runs;  // the recorded settings first; after a search, the rest best first
  bool is_ranked = false;
  PinReport pins;  // when the recorded run had the most reserved
};

struct WhatIf {
  std::string path;
  Completeness completeness;  // of the recording
  std::vector<DeviceWhatIf> devices;
};

// Why the recording cannot be simulated: without PyTorch's pool nothing is placed by its rules.
std::optional<Error> why_not_simulated(const Store& store, const std::string& path);

Result<WhatIf> make_whatif(const Store& store, const std::vector<DeviceReplay>& replays,
                           std::string path, const WhatIfOptions& options);

// The recording, checked against the simulator: under its own settings and limit, by the rules that
// fit it best.
struct VerifiedRun {
  TorchVersion version;
  sim::Verification verification;
};
Result<VerifiedRun> verify_run(const Store& store, const DeviceRecord& record,
                               const DeviceReplay& replay);

// One run as an event stream of its own, for every view that reads recordings.
struct SimulatedDevice {
  sim::SimulatedRun run;
  AllocatorSettings settings;
};
Result<SimulatedDevice> simulated_run(const Store& store, const DeviceRecord& record,
                                      const DeviceReplay& replay, const WhatIfOptions& options);

}  // namespace gpumemprof
