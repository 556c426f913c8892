// Advisor: predicts the peaks of one device's run under sets of remedies.
#pragma once

#include <optional>

#include "analysis/advice/advice.h"
#include "analysis/advice/advised_run.h"
#include "analysis/advice/change.h"
#include "analysis/advice/remedies/rewrite.h"
#include "sim/simulate.h"

namespace gpumemprof {

struct Prediction {
  PredictedBytes allocated;
  std::optional<PredictedBytes> reserved;  // none where there is no pool: on the CPU
  PeakPicture at_peak;
  std::uint64_t segment_requests = 0;  // of the driver, over the whole run; 0 without a pool
};

class Advisor {
 public:
  // `replay` is that of the recorded run. The run must outlive the advisor.
  Advisor(const AdvisedRun& run, const DeviceReplay& replay);

  [[nodiscard]] Result<Prediction> predict(const Change& change,
                                           std::uint64_t limit_bytes = sim::kNoLimit) const;
  // What is allocated over the run under a change, as the simulator counts it; without a pool, as
  // requested.
  [[nodiscard]] Result<sim::AllocatedCurve> curve(const Change& change,
                                                  std::uint32_t events_per_point) const;
  // How much memory the run needs under a change, with room for the band; of the pool's overhead,
  // only the rounding of each request is counted.
  [[nodiscard]] std::uint64_t needed_bytes(const Change& change) const;
  // Whether the run survives a limit on reserved memory, with room for the band.
  [[nodiscard]] bool fits(const Change& change, std::uint64_t limit_bytes) const;

  [[nodiscard]] const AdvisedRun& run() const { return run_; }
  // Of the run as recorded, or, if it was completed, as it would have been.
  [[nodiscard]] std::uint64_t allocated_bytes() const { return peak_allocated_; }
  [[nodiscard]] std::uint64_t reserved_bytes() const { return peak_reserved_; }
  [[nodiscard]] std::uint64_t segment_requests() const { return segment_requests_; }
  [[nodiscard]] const PeakPicture& baseline() const { return baseline_; }
  [[nodiscard]] bool has_run_out() const { return has_run_out_; }

 private:
  // How much less or more the growth may take under a change that resizes a step.
  void doubt_growth(const Change& change, Rewrite& changed) const;
  [[nodiscard]] Rewrite rewrite(const Change& change) const;
  void take_run(const sim::SimulationResult& run, double band, std::uint64_t limit_bytes,
                Prediction& prediction) const;
  [[nodiscard]] sim::SimulationOptions simulation(const Change& change) const;
  [[nodiscard]] PeakPicture picture(const AllocationTimeline& timeline) const;

  const AdvisedRun& run_;
  PeakPicture baseline_;
  bool has_run_out_ = false;
  std::uint64_t peak_allocated_ = 0;
  std::uint64_t peak_reserved_ = 0;
  std::uint64_t simulated_allocated_ = 0;  // of the original timeline
  std::uint64_t simulated_reserved_ = 0;
  std::uint64_t segment_requests_ = 0;
};

}  // namespace gpumemprof
