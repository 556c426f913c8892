// Completion: a run that ran out of memory, continued as it would have run with more memory.
//
// What it would have allocated follows from the whole steps before the one that failed. If the
// first optimizer step failed, forward and backward are known, and the optimizer is known from its
// code: its state follows from the parameters. Anything else cannot be known: how many layers a
// model has that its forward did not reach, or which optimizer follows a backward.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "analysis/advice/run/run_facts.h"
#include "store/store.h"

namespace gpumemprof {

struct CompletedRun {
  DeviceRecord record;  // events, allocations and labels only
  std::vector<PhaseSpan> spans;
  std::uint32_t resumed_at = 0;  // the first event that was not recorded
  std::string how;               // a sentence: what it was completed from
  // The same allocations at another size: how each grew is inferred from those that are visible.
  bool is_scaled = false;
  // How much less the rest of the step may take, if its stepping mode is not visible.
  std::uint64_t doubtful_low_bytes = 0;
};

struct RunEnd {
  bool is_cut_short = false;              // out of memory, and no whole step after it
  std::optional<CompletedRun> completed;  // none if it is whole, or cannot be completed
  std::string why_not;                    // a sentence, if it cannot
};

RunEnd complete_run(const Store& store, const DeviceRecord& record,
                    const std::vector<PhaseSpan>& spans);

}  // namespace gpumemprof
