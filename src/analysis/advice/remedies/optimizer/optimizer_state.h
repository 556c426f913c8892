// What optimizers keep for each parameter, and what their step allocates: shared by the remedies
// that change the optimizer.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "analysis/advice/advised_run.h"
#include "analysis/advice/remedies/rewrite.h"

namespace gpumemprof {

inline constexpr std::uint64_t kFloatBytes = 4;

// Drops what the recorded steps allocate and free again.
void drop_step_temporaries(Rewrite& rewrite);
// One parameter at a time, with `count` temporaries of its size live at once.
void add_step_temporaries(Rewrite& rewrite, std::uint32_t count);
// Whether the recorded optimizer has a second moment: then its step takes square roots.
bool has_second_moment(const RunFacts& facts);

// A sentence if the recorded step allocates nothing beside its state.
std::optional<std::string> no_step_temporaries(const AdvisedRun& run);

void drop_states(Rewrite& rewrite);
// Drops the recorded state and allocates these sizes instead, when the recorded state was.
void replace_states(Rewrite& rewrite, const std::vector<std::uint64_t>& sizes);
// One buffer of each parameter's size: that much of the recorded state is kept.
void keep_one_state(Rewrite& rewrite);

// The sizes of bitsandbytes' 8-bit state with two moments, one parameter after the other.
struct EightBitState {
  std::uint64_t elements = 0;        // of the parameter
  std::vector<std::uint64_t> sizes;  // of its moments, then of their scales
};
std::vector<EightBitState> eight_bit_states(const RunFacts& facts);
std::vector<std::uint64_t> sizes_of(const std::vector<EightBitState>& states);

}  // namespace gpumemprof
