// The summary of a rank: what a report about many ranks needs of one of them, in a few bytes for
// each step. docs/format.md describes the file.
#pragma once

#include <string>
#include <vector>

#include "analysis/card_usage/step_pool.h"
#include "analysis/overview/overview.h"
#include "store/store.h"

namespace gpumemprof {

struct RankSummary {
  Overview overview;
  std::uint64_t recording_bytes = 0;  // the size of the file when it was read
  // One for each of the overview's devices; empty: the recording was read in windows.
  std::vector<PoolOverSteps> pools;
};

// A line of facts and figures; then, for each device, a line of what holds its memory at the peak
// and one line for each column of its steps.
std::string rank_summary_json(const RankSummary& summary, const Store& store);

}  // namespace gpumemprof
