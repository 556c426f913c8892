// Which of the program's modules the blocks of a pass are, where the recording tells instances
// apart.
#pragma once

#include <string>
#include <vector>

#include "analysis/advice/rewrite.h"

namespace gpumemprof {

// The path of each block's module, by the order the blocks run in: "transformer.h.0",
// "transformer.h.1", … A module that runs several times is there as often. Empty where the
// recording does not say it of every block, or passes run different modules.
std::vector<std::string> find_block_modules(const RunFacts& facts,
                                            const std::vector<RepeatedBlock>& blocks);

}  // namespace gpumemprof
