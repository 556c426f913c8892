// The summary of one rank's recording, for reports about all ranks of a job.
#pragma once

#include <string>

#include "base/result.h"

namespace gpumemprof {

// As docs/format.md describes it. Memory does not grow with the recording; of one that is read in
// windows, what the pool reserved in each step is left out.
// `is_running`: more will be written to it; memory then stays small also where a failure could be
// proven with more.
Result<std::string> rank_summary(const std::string& recording, bool is_running = false);

}  // namespace gpumemprof
