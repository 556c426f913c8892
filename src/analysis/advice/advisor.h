// Advisor: predicts the peaks of one device's run under sets of remedies.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "analysis/advice/advice.h"
#include "analysis/advice/completion/completion.h"
#include "analysis/advice/plan.h"
#include "analysis/whatif/whatif.h"

namespace gpumemprof {

struct Slowdown {
  double pct = 0;
  bool is_measured = false;  // from the recorded phases; else a rule of thumb
};

struct Prediction {
  PredictedBytes allocated;
  std::optional<PredictedBytes> reserved;  // none where there is no pool: on the CPU
  PeakPicture at_peak;
  std::uint64_t segment_requests = 0;  // of the driver, over the whole run; 0 without a pool
};

// One device's run. Everything named must outlive the advisor.
struct AdvisorInput {
  const Store& store;
  const DeviceRecord& record;
  const DeviceReplay& replay;
  const std::vector<PhaseSpan>& spans;
  const DeviceWhatIf& proven;
  const Growth& growth;
  const RunEnd& end;
  std::optional<std::uint64_t> batch;
};

class Advisor {
 public:
  explicit Advisor(const AdvisorInput& input);

  // Learns from the same program with another batch size or sequence length. False if the two do
  // not make the same allocations.
  bool compare(const RunFacts& other);
  // A sentence if the remedy cannot be predicted or would by its nature change nothing.
  [[nodiscard]] std::optional<std::string> obstacle(RemedyId id) const;
  [[nodiscard]] Result<Prediction> predict(const Change& change,
                                           std::uint64_t limit_bytes = sim::kNoLimit) const;
  // How much memory the run needs under a change, with room for the band; of the pool's overhead,
  // only the rounding of each request is counted.
  [[nodiscard]] std::uint64_t needed_bytes(const Change& change) const;
  // Whether the run survives a limit on reserved memory, with room for the band.
  [[nodiscard]] bool fits(const Change& change, std::uint64_t limit_bytes) const;
  // What the change adds to a step's time; none if there is no evidence.
  [[nodiscard]] std::optional<Slowdown> slowdown(const Change& change) const;
  // Blocks of a pass in the order to checkpoint them: largest saving first, or as they run.
  [[nodiscard]] std::vector<std::uint32_t> blocks_by_saving() const;
  // Of the run as recorded, or, if it was completed, as it would have been.
  [[nodiscard]] std::uint64_t allocated_bytes() const { return peak_allocated_; }
  [[nodiscard]] std::uint64_t reserved_bytes() const { return peak_reserved_; }
  // It ran out of memory and could not be completed: every peak covers only the part up to there.
  [[nodiscard]] bool is_partial() const { return end_.is_cut_short && !end_.completed; }
  [[nodiscard]] bool has_run_out() const { return has_run_out_; }
  [[nodiscard]] const RunEnd& end() const { return end_; }
  [[nodiscard]] const Growth& growth() const { return growth_; }
  [[nodiscard]] std::optional<std::uint64_t> batch() const { return batch_; }
  [[nodiscard]] bool has_times() const { return step_seconds_.has_value(); }
  [[nodiscard]] const PeakPicture& baseline() const { return baseline_; }
  [[nodiscard]] const RunFacts& facts() const { return facts_; }
  [[nodiscard]] const SequenceFacts& sequence() const { return sequence_; }
  [[nodiscard]] std::size_t blocks_per_pass() const;
  // The path of each block's module; empty if the recording does not have it.
  [[nodiscard]] const std::vector<std::string>& block_modules() const { return block_modules_; }
  // The code that names the list of these blocks; none if the recording has no names.
  [[nodiscard]] const std::optional<std::string>& block_list() const { return block_list_; }
  [[nodiscard]] double band_of(const Change& change) const;
  [[nodiscard]] std::uint64_t recorded_segment_requests() const { return segment_requests_; }

 private:
  void choose_blocks();
  void drop_commands_behind(std::uint32_t event);
  // How much less or more the growth may take under a change that resizes a step.
  void doubt_growth(const Change& change, Rewrite& changed) const;
  [[nodiscard]] Rewrite rewrite(const Change& change) const;
  void take_run(const sim::SimulationResult& run, double band, std::uint64_t limit_bytes,
                Prediction& prediction) const;
  [[nodiscard]] sim::SimulationOptions simulation(const Change& change) const;
  // The allocator's rounding; nullptr if nothing is rounded.
  [[nodiscard]] const AllocatorSettings* rounding() const;
  [[nodiscard]] PeakPicture picture(const AllocationTimeline& timeline) const;
  [[nodiscard]] std::optional<std::string> batch_obstacle(std::uint64_t parts) const;
  [[nodiscard]] std::optional<std::string> model_obstacle(RemedyId id) const;
  [[nodiscard]] std::optional<std::string> gradient_obstacle(RemedyId id) const;
  [[nodiscard]] std::optional<Slowdown> checkpointing_slowdown(const Change& change) const;
  [[nodiscard]] std::optional<Slowdown> transfer_slowdown(std::uint64_t bytes_per_pass) const;
  [[nodiscard]] double forward_share(const Change& change) const;
  [[nodiscard]] bool is_autocast_already() const;
  [[nodiscard]] bool is_checkpointed_already() const;

  const Store& store_;
  const DeviceRecord& record_;
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
  PeakPicture baseline_;
  bool has_run_out_ = false;
  std::uint64_t peak_allocated_ = 0;
  std::uint64_t peak_reserved_ = 0;
  std::uint64_t simulated_allocated_ = 0;  // of the original timeline
  std::uint64_t simulated_reserved_ = 0;
  std::uint64_t segment_requests_ = 0;
  std::optional<double> forward_seconds_;
  std::optional<double> step_seconds_;
};

}  // namespace gpumemprof
