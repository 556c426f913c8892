// Completion: a run that ran out of memory, continued as it would have gone on with more of it.
//
// What it would have allocated follows from the whole steps before the one that failed. Where the
// first optimizer step failed, forward and backward are known, and the optimizer by its code: its
// state follows from the parameters. Anything else cannot be known: how many layers a model has
// that its forward did not reach, or which optimizer follows a backward.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "analysis/advice/run_facts.h"
#include "store/store.h"

namespace gpumemprof {

struct CompletedRun {
  DeviceRecord record;  // events, allocations and labels alone
  std::vector<PhaseSpan> spans;
  std::uint32_t resumed_at = 0;  // the first event that was not recorded
  std::string how;               // a sentence: what it was completed from
  // The same allocations in another size: how each grew is concluded from those that are seen.
  bool is_scaled = false;
  // What the rest of the step may take less, where its mode of stepping is not seen.
  std::uint64_t doubtful_low_bytes = 0;
};

struct RunEnd {
  bool is_cut_short = false;              // out of memory, and nothing whole behind it
  std::optional<CompletedRun> completed;  // none where it is whole, or cannot be completed
  std::string why_not;                    // a sentence, where it cannot
};

RunEnd complete_run(const Store& store, const DeviceRecord& record,
                    const std::vector<PhaseSpan>& spans);

}  // namespace gpumemprof
