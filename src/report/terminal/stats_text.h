// `gpumemprof stats`: all allocations of a run, counted.
#pragma once

#include <string>
#include <vector>

#include "analysis/overview/overview.h"
#include "analysis/stats/run_stats.h"
#include "report/text/overview/overview_text.h"
#include "store/store.h"

namespace gpumemprof {

struct RunCounts {
  const Overview& overview;  // peaks and counters
  const Store& store;
  std::vector<DeviceStats> devices;
  bool is_in_windows = false;  // the recording was too long to be held in memory

  // Null: nothing was ever allocated there.
  [[nodiscard]] const DeviceStats* of(DeviceIndex device) const;
};

// The first `most` lines, the largest first.
std::vector<LineStats> largest_lines(const DeviceStats& stats, std::size_t most);
std::vector<LineStats> busiest_lines(const DeviceStats& stats, std::size_t most);

std::string stats_text(const RunCounts& counts, const TextStyle& style);
std::string stats_json(const RunCounts& counts, std::size_t top);

}  // namespace gpumemprof
