// Repeated blocks: what one iteration of a loop over a model's modules computes.
#pragma once

#include <cstdint>
#include <vector>

#include "analysis/advice/run/run_facts.h"

namespace gpumemprof {

struct RepeatedBlock {
  std::uint32_t pass = 0;
  std::uint32_t first = 0;  // into ForwardPass::forward
  std::uint32_t end = 0;
  std::uint32_t ordinal = 0;  // of the pass's blocks, in the order they run
};

// In order of pass and place. `depth`: of nested loops, 0 takes the outermost.
std::vector<RepeatedBlock> find_blocks(const RunFacts& facts, std::uint32_t depth = 0);

// The most blocks that any pass has.
std::size_t blocks_per_pass(const std::vector<RepeatedBlock>& blocks);

}  // namespace gpumemprof
