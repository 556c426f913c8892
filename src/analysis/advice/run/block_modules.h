// Which of the program's modules the blocks of a pass are, if the recording distinguishes
// instances.
#pragma once

#include <string>
#include <vector>

#include "analysis/advice/run/repeated_blocks.h"

namespace gpumemprof {

// The path of each block's module, in the order the blocks run: "transformer.h.0",
// "transformer.h.1", … A module that runs several times is listed each time. Empty if the recording
// does not have it for every block, or passes run different modules.
std::vector<std::string> find_block_modules(const RunFacts& facts,
                                            const std::vector<RepeatedBlock>& blocks);

}  // namespace gpumemprof
