// decide(): from a table of floors to a verdict about the whole run, and the lines that cause it.
#pragma once

#include <cstdint>
#include <functional>
#include <string_view>
#include <vector>

#include "analysis/leaks/floor_table.h"
#include "analysis/leaks/site_trend.h"

namespace gpumemprof {

// In order of weight: where a run shows several, the last counts.
enum class LeakVerdict : std::uint8_t {
  too_short,  // too few repetitions to tell
  clean,
  warm_up,        // it grew, and stopped
  fragmentation,  // reserved memory grows, allocated memory does not
  outside_pool,   // what the process holds outside of the pool grows
  cycles,         // it grows until Python's garbage collector runs
  leak,
};
std::string_view leak_verdict_name(LeakVerdict verdict);

// Why memory that grows is no leak.
enum class GrowthReason : std::uint8_t {
  none,
  training_state,  // layers are unfrozen: each gets its gradients and its state once
  longer_inputs,   // all that the program makes grows alike
  one_sequence,    // the KV cache of a single sequence
  dropped,         // the program frees it when the work is done, and goes on
  suppressed,
};

struct DecideOptions {
  std::uint32_t fewest_floors = 8;
  // Growth below either is not reported: a list of scalars, say.
  std::uint64_t least_bytes = 16ULL << 10U;
  double least_bytes_per_floor = 1ULL << 10U;
  bool is_inference = false;
  // The repetitions are those of a line, not of a model: fragmentation that is far larger than what
  // the line keeps outweighs it.
  bool has_weak_repetitions = false;
  std::function<bool(const SiteFloors&)> is_suppressed;
  std::function<bool(const SiteFloors&)> is_dropped;
};

struct GrowingSite {
  std::uint32_t site = 0;  // row of the table's sites
  SiteTrend trend;
  GrowthReason reason = GrowthReason::none;
};

struct LeakDecision {
  LeakVerdict verdict = LeakVerdict::too_short;
  std::vector<GrowingSite> leaks;      // most bytes per floor first
  std::vector<GrowingSite> cycles;     // likewise
  std::vector<GrowingSite> innocents;  // that grow for a reason
  std::uint64_t stopped_bytes = 0;     // that grew after warm-up and then no longer
  double bytes_per_floor = 0;          // of the leaks
  double reserved_bytes_per_floor = 0;
  double outside_bytes_per_floor = 0;
};

LeakDecision decide(const FloorTable& table, const DecideOptions& options);

}  // namespace gpumemprof
