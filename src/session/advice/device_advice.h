// DeviceAdvice: what remedies would change in the run of one device, for whoever asks often. The
// run is prepared once, when it is first asked about.
//
// Safe to query from any number of threads.
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>

#include "analysis/advice/prepared_run.h"
#include "report/view/answers/answers_json.h"
#include "session/recording.h"

namespace gpumemprof {

class DeviceAdvice {
 public:
  DeviceAdvice(std::shared_ptr<const Recording> recording, std::size_t index)
      : recording_(std::move(recording)), index_(index) {}

  // As `advise --json` has it. `fit_bytes`: with the cheapest remedies that fit into so much.
  [[nodiscard]] Result<Advice> advice(std::optional<std::uint64_t> fit_bytes) const;
  // "checkpointing+autocast_bf16", as `advise --together` has it, and the run with them.
  [[nodiscard]] Result<view::PredictedTogether> together(const std::string& remedies) const;

 private:
  [[nodiscard]] const DeviceRecord& record() const {
    return *recording_->store().devices()[index_];
  }
  [[nodiscard]] const Result<std::unique_ptr<PreparedRun>>& prepared() const;

  std::shared_ptr<const Recording> recording_;
  std::size_t index_;
  mutable std::once_flag is_prepared_;
  mutable std::unique_ptr<const Result<std::unique_ptr<PreparedRun>>> prepared_;
  mutable std::mutex mutex_;
  mutable std::map<std::optional<std::uint64_t>, Advice> known_;  // by what it is to fit into
};

}  // namespace gpumemprof
