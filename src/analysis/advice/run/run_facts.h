// RunFacts: what a recording says about its training steps, as remedies need it: forward passes
// with the backward that follows them, which operation allocated what, which forward operation a
// moment of backward belongs to, the trainable parameters, the optimizer's steps.
//
// Rows are rows of the device's allocations. The recording is not copied; it must outlive this
// object.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "analysis/advice/run/allocation_timeline.h"
#include "analysis/advice/run/op_kind.h"
#include "analysis/phases/span_index.h"
#include "analysis/sources/sources.h"
#include "analysis/whatif/whatif.h"
#include "store/store.h"

namespace gpumemprof {

// Consecutive allocations with the same stack: usually one operation.
struct Operation {
  std::uint32_t first = 0;  // into ForwardPass::forward
  std::uint32_t count = 0;
  std::uint32_t output = 0;  // likewise: its main result
  OpKind kind = OpKind::unknown;
  StackId stack;
};

struct ForwardPass {
  std::uint32_t first_event = 0;
  std::uint32_t backward_first = kNoEvent;  // kNoEvent: no backward followed
  std::uint32_t backward_end = kNoEvent;    // after its last event
  std::vector<std::uint32_t> forward;       // rows born in forward, in order
  std::vector<std::uint32_t> backward;      // rows born in backward, in order
  // For each row of `backward`: the latest place in `forward` whose result backward still needs.
  std::vector<std::uint32_t> mirror;
  std::vector<Operation> operations;
  std::vector<std::uint32_t> operation_of;  // by place in `forward`

  [[nodiscard]] bool has_backward() const { return backward_first != kNoEvent; }
};

// How a pass's allocations grow with the batch, found from a second recording of the same program
// with another batch: by place, 1 in proportion, 0 not at all. Empty if the two do not match.
struct BatchGrowth {
  std::vector<double> forward;
  std::vector<double> backward;

  [[nodiscard]] bool is_known() const { return !forward.empty() || !backward.empty(); }
};

// How they grow with sequence length: by place, the exponent, 1 in proportion, 2 with the square.
// Empty if no other length was recorded.
struct SequenceGrowth {
  std::vector<double> forward;
  std::vector<double> backward;

  [[nodiscard]] bool is_known() const { return !forward.empty(); }
};

struct EventRange {
  std::uint32_t first = 0;
  std::uint32_t end = 0;  // after the last
};

class RunFacts {
 public:
  // `grown`: rows that are kept from step to step, sorted; no pass includes them.
  RunFacts(const Store& store, const DeviceRecord& record, const std::vector<PhaseSpan>& spans,
           const std::vector<std::uint32_t>& grown = {});

  [[nodiscard]] const Store& store() const { return store_; }
  [[nodiscard]] const DeviceRecord& record() const { return record_; }
  [[nodiscard]] const std::vector<ForwardPass>& passes() const { return passes_; }
  [[nodiscard]] const std::vector<EventRange>& optimizer_steps() const { return steps_; }
  // Bytes of each trainable parameter, from its gradient.
  [[nodiscard]] const std::vector<std::uint64_t>& parameters() const { return parameters_; }
  // The size of the token-by-token matrices that attention allocates if no fused kernel runs it; 0
  // if the operation allocates none.
  [[nodiscard]] std::uint64_t scores_bytes(const ForwardPass& pass,
                                           const Operation& operation) const;
  // Attention without a fused kernel. Its scores may have the size of its result, if there are as
  // many tokens as elements in a head; then it is recognized by how much it allocates.
  [[nodiscard]] bool is_attention_written_out(const ForwardPass& pass,
                                              const Operation& operation) const;
  // Whether it may be weights in another layout, which recurrent layers create temporarily.
  [[nodiscard]] bool may_be_weights(const ForwardPass& pass, std::size_t place) const;
  [[nodiscard]] bool is_parameter_size(std::uint64_t bytes) const;

  [[nodiscard]] MemorySource source(std::uint32_t row) const {
    return record_.labels.source_in_step(row);
  }
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
  // Allocated by this pass's forward and still live when its backward begins.
  [[nodiscard]] bool is_saved(const ForwardPass& pass, std::uint32_t row) const {
    return pass.has_backward() && death(row) >= pass.backward_first;
  }
  // Optimizer state divided by the parameters it belongs to; none if there are no parameters.
  [[nodiscard]] std::optional<double> states_per_parameter() const;
  [[nodiscard]] std::uint64_t parameter_bytes() const;
  [[nodiscard]] bool has_stacks() const { return has_stacks_; }
  // Learns from the same program with another batch.
  void compare_batches(const RunFacts& other);
  [[nodiscard]] const BatchGrowth& growth() const { return growth_; }
  // Learns from the same program with another sequence length; false if nothing shows that it is
  // the length that differs.
  bool compare_sequences(const RunFacts& other);
  [[nodiscard]] const SequenceGrowth& sequence_growth() const { return sequence_growth_; }
  // The last pass that has a backward; nullptr if there is none.
  [[nodiscard]] const ForwardPass* last_whole_pass() const;
  // The first pass after an optimizer step; nullptr if there is none.
  [[nodiscard]] const ForwardPass* first_pass_after(const EventRange& step) const;
  // Seconds of a phase over all its spans, excluding the first step if there are more; none if
  // events have no times.
  [[nodiscard]] std::optional<double> seconds_in(Phase phase) const;

  // The run as recorded: stream_pools and commands are those of the simulator's proof.
  [[nodiscard]] AllocationTimeline timeline(const sim::RequestColumns& proven,
                                            std::uint32_t first_event) const;

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
