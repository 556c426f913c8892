// The rewrites: what a remedy would make of a recorded run. Each takes the tape and changes it as
// the changed program would; several may be applied one behind the other.
//
// Rows of the recording keep their place in the tape (TapeRow::origin), so that a later rewrite
// finds what an earlier one left of them.
#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <vector>

#include "analysis/advice/run_facts.h"
#include "analysis/advice/tape.h"

namespace gpumemprof {

// The tape with the way from a row of the recording to its row of the tape.
struct Rewrite {
  const RunFacts& facts;
  Tape tape;
  std::vector<std::uint32_t> place_of;  // by row of the recording; kNoPlace: not in the tape
  // Bytes at risk: what the result hangs on that the recording does not say. Sums of whole rows.
  std::uint64_t doubtful_low_bytes = 0;   // the peak may be lower by as much
  std::uint64_t doubtful_high_bytes = 0;  // or higher

  static constexpr std::uint32_t kNoPlace = 0xffffffffU;

  Rewrite(const RunFacts& run_facts, Tape recorded);
  // The tape's row of a row of the recording, nullptr where it has none.
  TapeRow* find(std::uint32_t row) {
    return place_of[row] == kNoPlace ? nullptr : &tape.rows[place_of[row]];
  }
};

enum class OptimizerChoice : std::uint8_t { sgd, sgd_momentum, lion, adafactor, adam_8bit };
enum class SteppingMode : std::uint8_t { foreach_off, fused };

// Another optimizer: its state, and what its step allocates for a while.
void use_optimizer(Rewrite& rewrite, OptimizerChoice choice);
// The same optimizer, stepping otherwise.
void use_stepping(Rewrite& rewrite, SteppingMode mode);
// Every parameter steps as soon as backward made its gradient, which then is let go.
void step_in_backward(Rewrite& rewrite);
// The optimizer's state lives in the host's memory.
void offload_optimizer(Rewrite& rewrite);

// Batches `factor` times as large.
void scale_batch(Rewrite& rewrite, double factor);

// What a recording says of the length of its sequences.
struct SequenceFacts {
  bool has_sequence = false;             // embeddings, attention or recurrent layers are seen
  std::uint64_t attention_bytes = 0;     // of forward's matrices of tokens by tokens, in one pass
  std::set<std::uint64_t> square_sizes;  // of those matrices and what has their shape
  std::vector<char> is_square;           // by row of the recording
};
SequenceFacts find_sequence(const RunFacts& facts);
// Sequences `factor` times as long.
void scale_sequence(Rewrite& rewrite, double factor);

// Gradients that are there when they need not be, in bytes at one step.
struct KeptGradients {
  std::uint64_t zeroed_bytes = 0;  // zeroed in place: they outlive the next backward's beginning
  std::uint64_t late_bytes = 0;    // dropped only after the next forward began
};
KeptGradients find_kept_gradients(const RunFacts& facts);
// zero_grad(set_to_none=True) behind each step.
void zero_to_none(Rewrite& rewrite);
void zero_early(Rewrite& rewrite);
// torch.cuda.empty_cache() behind each step; returns how many times.
std::uint32_t empty_cache_each_step(Rewrite& rewrite);

// Several passes of the recorded size before each step: gradients are there while forward runs.
void accumulate(Rewrite& rewrite);

void use_autocast(Rewrite& rewrite);
void use_pure_bf16(Rewrite& rewrite);

// Blocks that a loop of the model's code runs one behind the other.
struct RepeatedBlock {
  std::uint32_t pass = 0;
  std::uint32_t first = 0;  // into ForwardPass::forward
  std::uint32_t end = 0;
  std::uint32_t ordinal = 0;  // of the pass's blocks, in the order they run
};
// In order of pass and place. `depth`: of loops inside loops, 0 takes the outermost.
std::vector<RepeatedBlock> find_blocks(const RunFacts& facts, std::uint32_t depth = 0);
// What checkpointed blocks keep besides their input.
enum class Kept : std::uint8_t { nothing, products };
// Drops what these blocks save and recomputes them in backward.
void checkpoint_blocks(Rewrite& rewrite, const std::vector<RepeatedBlock>& blocks,
                       Kept kept = Kept::nothing);
// What blocks save goes to the host's memory and comes back for backward.
void offload_activations(Rewrite& rewrite);
// The loss is computed from a part of the tokens at a time; false where no loss over logits is
// seen.
bool chunk_loss(Rewrite& rewrite, std::uint32_t chunks);

}  // namespace gpumemprof
