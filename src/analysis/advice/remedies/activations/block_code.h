// The code a user writes to apply a remedy, with the names of the program's own modules if the
// recording has them.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "analysis/advice/advisor.h"

namespace gpumemprof {

// The list of modules that the model's loop runs, as code: "model.transformer.h". Found by the
// modules of its blocks (find_block_modules); if the recording does not have those, the list with
// as many elements. None if there is no such list.
std::optional<std::string> find_block_list(const Store& store, std::size_t blocks,
                                           const std::vector<std::string>& modules);

// The code of one remedy of a change; for checkpointing, for the change's blocks.
std::string code_of(const Advisor& advisor, const Change& change, RemedyId id);

}  // namespace gpumemprof
