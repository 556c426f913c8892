// The rewrites: how a remedy would change a recorded run. Each takes the timeline and changes it as
// the changed program would; several may be applied one after the other.
//
// Rows of the recording keep their place in the timeline (TimelineRow::origin), so that a later
// rewrite finds what an earlier one left of them.
#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <vector>

#include "analysis/advice/run/allocation_timeline.h"
#include "analysis/advice/run/run_facts.h"

namespace gpumemprof {

// The timeline, with a map from rows of the recording to rows of the timeline.
struct Rewrite {
  const RunFacts& facts;
  AllocationTimeline timeline;
  std::vector<std::uint32_t> place_of;  // by row of the recording; kNoPlace: not in the timeline
  // Bytes at risk: what the result depends on but the recording does not say. Sums of whole rows.
  std::uint64_t doubtful_low_bytes = 0;   // the peak may be lower by this much
  std::uint64_t doubtful_high_bytes = 0;  // or higher by this much

  static constexpr std::uint32_t kNoPlace = 0xffffffffU;

  Rewrite(const RunFacts& run_facts, AllocationTimeline recorded);
  // The timeline's row for a row of the recording, nullptr if it has none.
  TimelineRow* find(std::uint32_t row) {
    return place_of[row] == kNoPlace ? nullptr : &timeline.rows[place_of[row]];
  }
};

enum class OptimizerChoice : std::uint8_t { sgd, sgd_momentum, lion, adafactor, adam_8bit };
enum class SteppingMode : std::uint8_t { foreach_off, fused };

// Another optimizer: its state, and the temporaries of its step.
void use_optimizer(Rewrite& rewrite, OptimizerChoice choice);
// The same optimizer in another stepping mode.
void use_stepping(Rewrite& rewrite, SteppingMode mode);
// Every parameter steps as soon as backward has computed its gradient, which is then freed.
void step_in_backward(Rewrite& rewrite);
// The optimizer's state is kept in host memory.
void offload_optimizer(Rewrite& rewrite);

// Batches `factor` times as large.
void scale_batch(Rewrite& rewrite, double factor);

// What a recording says about the length of its sequences.
struct SequenceFacts {
  bool has_sequence = false;             // embeddings, attention or recurrent layers were found
  std::uint64_t attention_bytes = 0;     // of forward's token-by-token matrices, in one pass
  std::set<std::uint64_t> square_sizes;  // of those matrices and of everything with their shape
  std::vector<char> is_square;           // by row of the recording
};
SequenceFacts find_sequence(const RunFacts& facts);
// Sequences `factor` times as long.
void scale_sequence(Rewrite& rewrite, double factor);

// Gradients that are live when they need not be, in bytes at one step.
struct KeptGradients {
  std::uint64_t zeroed_bytes = 0;  // zeroed in place: still live when the next backward begins
  std::uint64_t late_bytes = 0;    // freed only after the next forward began
};
KeptGradients find_kept_gradients(const RunFacts& facts);
// zero_grad(set_to_none=True) after each step.
void zero_to_none(Rewrite& rewrite);
void zero_early(Rewrite& rewrite);
// torch.cuda.empty_cache() after each step; returns how many times.
std::uint32_t empty_cache_each_step(Rewrite& rewrite);

// Several passes of the recorded size before each step: gradients are live while forward runs.
void accumulate(Rewrite& rewrite);

void use_autocast(Rewrite& rewrite);
void use_pure_bf16(Rewrite& rewrite);

// Blocks that a loop in the model's code runs one after the other.
struct RepeatedBlock {
  std::uint32_t pass = 0;
  std::uint32_t first = 0;  // into ForwardPass::forward
  std::uint32_t end = 0;
  std::uint32_t ordinal = 0;  // of the pass's blocks, in the order they run
};
// In order of pass and place. `depth`: of nested loops, 0 takes the outermost.
std::vector<RepeatedBlock> find_blocks(const RunFacts& facts, std::uint32_t depth = 0);
// What checkpointed blocks keep besides their input.
enum class Kept : std::uint8_t { nothing, products };
// Drops what these blocks save and recomputes them in backward.
void checkpoint_blocks(Rewrite& rewrite, const std::vector<RepeatedBlock>& blocks,
                       Kept kept = Kept::nothing);
// What blocks save is moved to host memory and back for backward.
void offload_activations(Rewrite& rewrite);
// The loss is computed on part of the tokens at a time; false if no loss over logits is found.
bool chunk_loss(Rewrite& rewrite, std::uint32_t chunks);

}  // namespace gpumemprof
