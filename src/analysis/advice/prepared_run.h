// PreparedRun: one device's run, checked against the simulator and completed if it failed, ready
// for remedies to be tried on it. Preparing costs as much as several trials, so whoever tries many
// keeps it.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "analysis/advice/advice.h"
#include "analysis/advice/advised_run.h"
#include "analysis/advice/advisor.h"
#include "analysis/advice/completion/completion.h"

namespace gpumemprof {

class PreparedRun {
 public:
  struct Input {
    const Store& store;
    const std::vector<DeviceReplay>& replays;
    const std::vector<std::vector<PhaseSpan>>& phases;
    std::size_t index = 0;  // of the device, in all three
    std::string path;
    std::optional<std::uint64_t> batch;
    std::optional<OtherRun> other;
  };
  // All that the input names must outlive it. An Error if the run cannot be simulated, or the other
  // recording lacks the device.
  static Result<std::unique_ptr<PreparedRun>> make(const Input& input);
  PreparedRun(const PreparedRun&) = delete;
  PreparedRun& operator=(const PreparedRun&) = delete;

  [[nodiscard]] const Advisor& advisor() const { return *advisor_; }
  [[nodiscard]] const AdvisedRun& run() const { return *run_; }
  [[nodiscard]] const RunEnd& end() const { return end_; }
  [[nodiscard]] const Growth& growth() const { return growth_; }
  // The other recording did not help.
  [[nodiscard]] bool is_other_different() const { return is_other_different_; }

  // Remedies by name, predicted together; an Error if a name is not a remedy, or two cannot be
  // combined.
  [[nodiscard]] Result<Remedy> predict(const std::vector<std::string>& names) const;
  // Of the recorded events: those of the part that a completed run adds are left out.
  [[nodiscard]] Result<sim::AllocatedCurve> curve(const std::vector<std::string>& names,
                                                  std::uint32_t events_per_point) const;

 private:
  PreparedRun() = default;

  WhatIf proven_;
  RunEnd end_;
  Growth growth_;
  std::unique_ptr<AdvisedRun> run_;
  std::unique_ptr<Advisor> advisor_;
  std::uint32_t recorded_events_ = 0;
  bool is_other_different_ = false;
};

// For one remedy, or for several together: then the first that cannot be predicted decides.
Remedy study(const Advisor& advisor, const Change& change);

}  // namespace gpumemprof
