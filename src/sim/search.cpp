#include "sim/search.h"

#include <algorithm>
#include <array>
#include <tuple>

#include "base/error.h"

namespace gpumemprof::sim {
namespace {

constexpr std::uint64_t kGranularityBytes = 2 * kMiB;

struct Trial {
  const char* text;
  TorchVersion since;
};

// Garbage collection skips expandable segments, so the two are not combined.
constexpr std::array kTrials = {
    Trial{"", {2, 0}},
    Trial{"expandable_segments:True", {2, 0}},
    Trial{"expandable_segments:True,roundup_power2_divisions:4", {2, 0}},
    Trial{"expandable_segments:True,large_segment_size_mb:64", {2, 11}},
    Trial{"max_split_size_mb:64", {2, 0}},
    Trial{"max_split_size_mb:128", {2, 0}},
    Trial{"max_split_size_mb:256", {2, 0}},
    Trial{"max_split_size_mb:512", {2, 0}},
    Trial{"max_split_size_mb:128,max_non_split_rounding_mb:64", {2, 6}},
    Trial{"roundup_power2_divisions:4", {2, 0}},
    Trial{"roundup_power2_divisions:8", {2, 0}},
    Trial{"roundup_power2_divisions:16", {2, 0}},
    Trial{"garbage_collection_threshold:0.6", {2, 0}},
    Trial{"garbage_collection_threshold:0.8", {2, 0}},
    Trial{"max_split_size_mb:128,garbage_collection_threshold:0.8", {2, 0}},
    Trial{"max_split_size_mb:256,roundup_power2_divisions:8", {2, 0}},
    Trial{"large_segment_size_mb:64", {2, 11}},
};

class Bisection {
 public:
  Bisection(const RequestColumns& requests, const SimulationOptions& options,
            std::uint64_t granularity_bytes)
      : requests_(requests), options_(options), unit_(granularity_bytes) {
    options_.stops_at_first_oom = true;
    options_.limit = {};
  }

  // least_bytes: the peak of active bytes, which must fit. Runs that fail end early, so the search
  // starts from below. More memory can fail where less survives, because segments are then split
  // differently. So limits somewhat above the one found are tried too, and where one fails the
  // search continues from there.
  std::optional<MinMemory> find(std::uint64_t least_bytes) {
    std::uint64_t low = least_bytes / unit_ * unit_;
    if (!survives(low)) {
      if (!search_above(low)) return {};
    }
    const MinMemory lowest = found_;
    std::optional<std::uint64_t> failed;
    for (const std::uint64_t share : {64U, 24U, 12U}) {
      const std::uint64_t above = (lowest.limit_bytes + lowest.limit_bytes / share) / unit_ * unit_;
      if (!survives(above)) failed = above;
    }
    found_ = lowest;
    if (failed && !search_above(*failed)) return {};
    return found_;
  }

 private:
  // low fails.
  bool search_above(std::uint64_t low) {
    std::uint64_t step = std::max<std::uint64_t>(1, low / unit_ / 64) * unit_;
    std::uint64_t high = low + step;
    while (!survives(high)) {
      low = high;
      step *= 2;
      high += step;
      if (high > kMaxRequestBytes) return false;
    }
    while (high - low > unit_) {
      const std::uint64_t middle = low + (high - low) / unit_ / 2 * unit_;
      (survives(middle) ? high : low) = middle;
    }
    return true;
  }

  bool survives(std::uint64_t limit_bytes) {
    options_.limit.allowed_bytes = limit_bytes;
    const Result<SimulationResult> run = simulate(requests_, options_);
    if (!run || run->num_ooms() > 0) return false;
    found_ = {limit_bytes, run->counters.num_alloc_retries};
    return true;
  }

  const RequestColumns& requests_;
  SimulationOptions options_;
  std::uint64_t unit_;
  MinMemory found_;
};

auto rank(const Candidate& candidate) {
  const Counters& counters = candidate.result.counters;
  return std::tuple(counters.num_ooms > 0, candidate.result.peak_reserved_bytes,
                    counters.num_alloc_retries,
                    candidate.min_memory ? candidate.min_memory->limit_bytes : kNoLimit,
                    counters.num_device_alloc + counters.num_device_free);
}

}  // namespace

std::optional<MinMemory> find_min_memory(const RequestColumns& requests,
                                         const SimulationOptions& options,
                                         std::uint64_t granularity_bytes) {
  GMP_CHECK(granularity_bytes > 0);
  SimulationOptions unlimited = options;
  unlimited.limit = {};
  const Result<SimulationResult> result = simulate(requests, unlimited);
  if (!result || result->num_ooms() > 0) return {};
  return Bisection(requests, options, granularity_bytes).find(result->counters.active_bytes.peak());
}

std::vector<AllocConf> sensible_settings(TorchVersion version) {
  std::vector<AllocConf> settings;
  for (const Trial& trial : kTrials) {
    if (trial.since > version) continue;
    Result<AllocConf> conf = parse_alloc_conf(trial.text, version);
    settings.push_back(std::move(conf).value());
  }
  return settings;
}

Result<std::vector<Candidate>> search(const RequestColumns& requests,
                                      const std::vector<AllocConf>& settings,
                                      const SearchOptions& options) {
  std::vector<Candidate> candidates;
  for (const AllocConf& conf : settings) {
    SimulationOptions simulation;
    simulation.settings = conf.settings;
    simulation.rules = rules_for(options.version);
    simulation.limit = options.limit;
    simulation.device_total_bytes = options.device_total_bytes;
    Result<SimulationResult> result = simulate(requests, simulation);
    if (!result) return result.error();
    Candidate candidate{conf, result.value(), {}};
    if (result->num_ooms() == 0) {
      const std::uint64_t least_bytes = result->counters.active_bytes.peak();
      candidate.min_memory = Bisection(requests, simulation, kGranularityBytes).find(least_bytes);
    } else {
      candidate.min_memory = find_min_memory(requests, simulation, kGranularityBytes);
    }
    candidates.push_back(std::move(candidate));
    if (options.progress) options.progress(candidates.size(), settings.size());
  }
  std::stable_sort(candidates.begin(), candidates.end(),
                   [](const Candidate& a, const Candidate& b) { return rank(a) < rank(b); });
  return candidates;
}

}  // namespace gpumemprof::sim
