// The code that a person writes to use a remedy, with the names of the program's own modules where
// the recording has them.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "analysis/advice/advisor.h"

namespace gpumemprof {

// The list of modules that the model's loop runs, as code: "model.transformer.h". By the modules
// that its blocks are (find_block_modules); where the recording does not say them, the list that
// has as many. None where there is no such list.
std::optional<std::string> find_block_list(const Store& store, std::size_t blocks,
                                           const std::vector<std::string>& modules);

// The code of one remedy of a change; of checkpointing, for the blocks of the change.
std::string code_of(const Advisor& advisor, const Change& change, RemedyId id);

}  // namespace gpumemprof
