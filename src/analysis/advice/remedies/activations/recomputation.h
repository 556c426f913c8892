// Recomputation: blocks save only their input and are computed again when backward reaches them.
#pragma once

#include <cstdint>
#include <vector>

#include "analysis/advice/remedies/rewrite.h"
#include "analysis/advice/run/repeated_blocks.h"

namespace gpumemprof {

// What checkpointed blocks keep besides their input.
enum class Kept : std::uint8_t { nothing, products };

// Drops what these blocks save and recomputes them in backward.
void checkpoint_blocks(Rewrite& rewrite, const std::vector<RepeatedBlock>& blocks,
                       Kept kept = Kept::nothing);

// The blocks to checkpoint: for nested loops, those whose checkpoints lower the peak most.
// `rounding` is the allocator's; nullptr if nothing is rounded.
std::vector<RepeatedBlock> choose_blocks(const RunFacts& facts, const AllocationTimeline& recorded,
                                         const AllocatorSettings* rounding);

// Whether the run recomputes activations already.
bool is_checkpointed(const RunFacts& facts);

}  // namespace gpumemprof
