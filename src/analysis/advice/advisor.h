// Advisor: predicts the peaks of one device's run under sets of remedies.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "analysis/advice/advice.h"
#include "analysis/advice/plan.h"
#include "analysis/whatif/whatif.h"

namespace gpumemprof {

struct Prediction {
  PredictedBytes allocated;
  std::optional<PredictedBytes> reserved;  // none where there is no pool: on the CPU
  PeakPicture at_peak;
};

class Advisor {
 public:
  // Everything named must outlive it.
  Advisor(const Store& store, const DeviceRecord& record, const DeviceReplay& replay,
          const std::vector<PhaseSpan>& spans, const DeviceWhatIf& proven,
          std::optional<std::uint64_t> batch);

  // What the same program with another batch teaches.
  void compare_batches(const RunFacts& other) { facts_.compare_batches(other); }
  // A sentence where the remedy cannot be predicted or would change nothing by its nature.
  [[nodiscard]] std::optional<std::string> obstacle(RemedyId id) const;
  [[nodiscard]] Result<Prediction> predict(const std::vector<RemedyId>& remedies,
                                           std::uint64_t limit_bytes = sim::kNoLimit) const;
  // Whether the run survives a limit on reserved memory, with room for the band; none: an error of
  // the simulator's.
  [[nodiscard]] bool fits(const std::vector<RemedyId>& remedies, double batch_factor,
                          std::uint64_t limit_bytes) const;
  [[nodiscard]] std::optional<double> slowdown_pct(RemedyId id) const;
  [[nodiscard]] std::uint64_t recorded_reserved_bytes() const {
    return replay_.peak_reserved_bytes;
  }
  [[nodiscard]] bool has_run_out() const { return replay_.counters.ooms > 0; }
  [[nodiscard]] std::optional<std::uint64_t> batch() const { return batch_; }
  [[nodiscard]] bool has_times() const { return step_seconds_.has_value(); }
  [[nodiscard]] const PeakPicture& baseline() const { return baseline_; }
  [[nodiscard]] const RunFacts& facts() const { return facts_; }
  [[nodiscard]] std::size_t blocks_per_pass() const;
  [[nodiscard]] double band_of(const std::vector<RemedyId>& remedies) const;

 private:
  void choose_blocks();
  [[nodiscard]] Rewrite rewrite(const std::vector<RemedyId>& remedies, double batch_factor) const;
  void take_run(const sim::SimulationResult& run, double band, std::uint64_t limit_bytes,
                Prediction& prediction) const;
  [[nodiscard]] sim::SimulationOptions simulation(const std::vector<RemedyId>& remedies) const;
  // The rounding of the allocator; nullptr where nothing is rounded.
  [[nodiscard]] const AllocatorSettings* rounding() const;
  [[nodiscard]] PeakPicture picture(const Tape& tape) const;
  [[nodiscard]] std::optional<std::string> batch_obstacle(std::uint64_t parts) const;
  [[nodiscard]] bool is_autocast_already() const;
  [[nodiscard]] bool is_checkpointed_already() const;

  const Store& store_;
  const DeviceRecord& record_;
  const DeviceReplay& replay_;
  const DeviceWhatIf& proven_;
  std::optional<std::uint64_t> batch_;
  RunFacts facts_;
  Tape recorded_;
  std::vector<RepeatedBlock> blocks_;
  PeakPicture baseline_;
  std::uint64_t simulated_allocated_ = 0;  // of the tape as it was
  std::uint64_t simulated_reserved_ = 0;
  std::optional<double> forward_seconds_;
  std::optional<double> step_seconds_;
};

}  // namespace gpumemprof
