// The code that checkpoints blocks, with the names of the program's own modules if the recording
// has them.
#pragma once

#include <string>
#include <string_view>

#include "analysis/advice/advised_run.h"
#include "analysis/advice/change.h"

namespace gpumemprof {

// `context`: lines that define `context`, passed to checkpoint() as context_fn; empty: none.
// `plain`: the code if the recording has no names and all blocks are meant.
std::string checkpointing_code(const AdvisedRun& run, const Change& change,
                               std::string_view context, std::string_view plain);

}  // namespace gpumemprof
