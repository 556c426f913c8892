// AdvisedRun: one device's run as remedies see it: its facts, its timeline as recorded, and the
// blocks that repeat. A run that ran out of memory is completed first, if it can be.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "analysis/advice/completion/completion.h"
#include "analysis/advice/run/allocation_timeline.h"
#include "analysis/advice/run/repeated_blocks.h"
#include "analysis/advice/run/run_facts.h"
#include "analysis/advice/run/sequence_facts.h"
#include "analysis/growth/growth.h"
#include "analysis/whatif/whatif.h"

namespace gpumemprof {

// Everything named must outlive the run.
struct AdvisedRunInput {
  const Store& store;
  const DeviceRecord& record;
  const std::vector<PhaseSpan>& spans;
  const DeviceWhatIf& proven;
  const Growth& growth;
  const RunEnd& end;
  std::optional<std::uint64_t> batch;
};

class AdvisedRun {
 public:
  explicit AdvisedRun(const AdvisedRunInput& input);

  // Learns from the same program with another batch size or sequence length. False if the two do
  // not make the same allocations.
  bool compare(const RunFacts& other);

  [[nodiscard]] const Store& store() const { return facts_.store(); }
  [[nodiscard]] const DeviceRecord& record() const { return facts_.record(); }
  [[nodiscard]] const RunFacts& facts() const { return facts_; }
  [[nodiscard]] const AllocationTimeline& recorded() const { return recorded_; }
  [[nodiscard]] const SequenceFacts& sequence() const { return sequence_; }
  [[nodiscard]] const Growth& growth() const { return growth_; }
  [[nodiscard]] const RunEnd& end() const { return end_; }
  // It ran out of memory and could not be completed: every peak covers only the part up to there.
  [[nodiscard]] bool is_partial() const { return end_.is_cut_short && !end_.completed; }
  [[nodiscard]] std::optional<std::uint64_t> batch() const { return batch_; }
  // The first event that the simulator reproduced.
  [[nodiscard]] std::uint32_t first_event() const { return proven_.first_event; }
  [[nodiscard]] TorchVersion torch_version() const { return proven_.version; }
  // The allocator's rounding; nullptr if there is no caching allocator: on the CPU.
  [[nodiscard]] const AllocatorSettings* rounding() const;

  [[nodiscard]] const std::vector<RepeatedBlock>& blocks() const { return blocks_; }
  [[nodiscard]] std::size_t blocks_per_pass() const { return gpumemprof::blocks_per_pass(blocks_); }
  // The path of each block's module; empty if the recording does not have it.
  [[nodiscard]] const std::vector<std::string>& block_modules() const { return block_modules_; }
  // The code that names the list of these blocks; none if the recording has no names.
  [[nodiscard]] const std::optional<std::string>& block_list() const { return block_list_; }
  // Blocks of a pass, the one that saves most for backward first, over all passes.
  [[nodiscard]] std::vector<std::uint32_t> blocks_by_saving() const;

  // Over all passes but the first; none if events have no times.
  [[nodiscard]] std::optional<double> forward_seconds() const { return forward_seconds_; }
  [[nodiscard]] std::optional<double> step_seconds() const { return step_seconds_; }

 private:
  const DeviceWhatIf& proven_;
  const Growth& growth_;
  const RunEnd& end_;
  std::optional<std::uint64_t> batch_;
  RunFacts facts_;
  AllocationTimeline recorded_;
  SequenceFacts sequence_;
  std::vector<RepeatedBlock> blocks_;
  std::vector<std::string> block_modules_;
  std::optional<std::string> block_list_;
  std::optional<double> forward_seconds_;
  std::optional<double> step_seconds_;
};

}  // namespace gpumemprof
