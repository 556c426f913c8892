// RunFacts: what a recording says of its training steps, as remedies need it: forward passes with
// the backward behind them, which operation allocated what, which forward operation a moment of
// backward belongs to, the trainable parameters, the optimizer's steps.
//
// Rows are rows of the device's allocations. Nothing is copied of the recording; it must outlive
// this.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "analysis/advice/op_kind.h"
#include "analysis/advice/tape.h"
#include "analysis/sources/sources.h"
#include "analysis/sources/span_index.h"
#include "analysis/whatif/whatif.h"
#include "store/store.h"

namespace gpumemprof {

// Consecutive allocations with the same stack: one operation, mostly.
struct Operation {
  std::uint32_t first = 0;  // into ForwardPass::forward
  std::uint32_t count = 0;
  std::uint32_t output = 0;  // the same: its main result
  OpKind kind = OpKind::unknown;
  StackId stack;
};

struct ForwardPass {
  std::uint32_t first_event = 0;
  std::uint32_t backward_first = kNoEvent;  // kNoEvent: no backward followed
  std::uint32_t backward_end = kNoEvent;    // behind its last event
  std::vector<std::uint32_t> forward;       // rows born in forward, in order
  std::vector<std::uint32_t> backward;      // rows born in backward, in order
  // For each row of `backward`: the latest place in `forward` whose result backward still needs.
  std::vector<std::uint32_t> mirror;
  std::vector<Operation> operations;
  std::vector<std::uint32_t> operation_of;  // by place in `forward`

  [[nodiscard]] bool has_backward() const { return backward_first != kNoEvent; }
};

// How a pass's allocations grow with the batch, found by a second recording of the same program
// with another batch: by place, 1 in proportion, 0 not at all. Empty where the two do not match.
struct BatchGrowth {
  std::vector<double> forward;
  std::vector<double> backward;

  [[nodiscard]] bool is_known() const { return !forward.empty() || !backward.empty(); }
};

// How they grow with the length of sequences: by place, the exponent, 1 in proportion, 2 with the
// square. Empty where no other length was recorded.
struct SequenceGrowth {
  std::vector<double> forward;
  std::vector<double> backward;

  [[nodiscard]] bool is_known() const { return !forward.empty(); }
};

struct EventRange {
  std::uint32_t first = 0;
  std::uint32_t end = 0;  // behind the last
};

class RunFacts {
 public:
  // `grown`: rows that are kept from step to step, sorted; no pass has them.
  RunFacts(const Store& store, const DeviceRecord& record, const std::vector<PhaseSpan>& spans,
           const std::vector<std::uint32_t>& grown = {});

  [[nodiscard]] const Store& store() const { return store_; }
  [[nodiscard]] const DeviceRecord& record() const { return record_; }
  [[nodiscard]] const std::vector<ForwardPass>& passes() const { return passes_; }
  [[nodiscard]] const std::vector<EventRange>& optimizer_steps() const { return steps_; }
  // Bytes of each trainable parameter, by its gradient.
  [[nodiscard]] const std::vector<std::uint64_t>& parameters() const { return parameters_; }
  // The size of the matrices of tokens by tokens that attention makes where no fused kernel serves
  // it; 0 where the operation makes none.
  [[nodiscard]] std::uint64_t scores_bytes(const ForwardPass& pass,
                                           const Operation& operation) const;
  // Attention that no fused kernel serves. Its scores may have the size of its result, where there
  // are as many tokens as numbers in a head; then it is known by how much it makes.
  [[nodiscard]] bool is_attention_written_out(const ForwardPass& pass,
                                              const Operation& operation) const;
  // Whether it may be weights in another layout, which recurrent layers make for a while.
  [[nodiscard]] bool may_be_weights(const ForwardPass& pass, std::size_t place) const;
  [[nodiscard]] bool is_parameter_size(std::uint64_t bytes) const;

  [[nodiscard]] MemorySource source(std::uint32_t row) const { return record_.labels.source[row]; }
  [[nodiscard]] std::uint64_t bytes(std::uint32_t row) const {
    return record_.allocations.requested_bytes[row];
  }
  [[nodiscard]] std::uint32_t birth(std::uint32_t row) const {
    return record_.allocations.alloc_event[row];
  }
  [[nodiscard]] std::uint32_t death(std::uint32_t row) const {
    return record_.allocations.free_requested_event[row];
  }
  [[nodiscard]] Phase phase_at(std::uint32_t event) const;
  // Made by this pass's forward and still there when its backward begins.
  [[nodiscard]] bool is_saved(const ForwardPass& pass, std::uint32_t row) const {
    return pass.has_backward() && death(row) >= pass.backward_first;
  }
  // State of the optimizer divided by the parameters it is for; none where there are no parameters.
  [[nodiscard]] std::optional<double> states_per_parameter() const;
  [[nodiscard]] std::uint64_t parameter_bytes() const;
  [[nodiscard]] bool has_stacks() const { return has_stacks_; }
  // Learns from the same program with another batch.
  void compare_batches(const RunFacts& other);
  [[nodiscard]] const BatchGrowth& growth() const { return growth_; }
  // Learns from the same program with sequences of another length; false where nothing shows that
  // it is the length that differs.
  bool compare_sequences(const RunFacts& other);
  [[nodiscard]] const SequenceGrowth& sequence_growth() const { return sequence_growth_; }
  // The last pass that has a backward; nullptr where there is none.
  [[nodiscard]] const ForwardPass* last_whole_pass() const;
  // Seconds of a phase over all its spans, behind the first step where there are more; none where
  // events have no times.
  [[nodiscard]] std::optional<double> seconds_in(Phase phase) const;

  // The run as it was: lanes and commands are those of the simulator's proof.
  [[nodiscard]] Tape tape(const sim::RequestColumns& proven, std::uint32_t first_event) const;

 private:
  void find_passes(const std::vector<std::uint32_t>& grown);
  [[nodiscard]] bool allocates_no_step() const;
  void find_operations(ForwardPass& pass);
  void find_mirror(ForwardPass& pass) const;
  void find_matmuls_by_gradient(ForwardPass& pass);
  void find_parameters();

  const Store& store_;
  const DeviceRecord& record_;
  SpanIndex spans_;
  std::vector<OpKind> kinds_;  // by stack
  std::vector<ForwardPass> passes_;
  std::vector<EventRange> steps_;
  std::vector<std::uint64_t> parameters_;
  std::vector<std::uint64_t> parameter_sizes_;  // sorted, each once
  BatchGrowth growth_;
  SequenceGrowth sequence_growth_;
  bool has_stacks_ = false;
};

}  // namespace gpumemprof
