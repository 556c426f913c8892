// DeviceAdvice: what remedies and other settings would change in the run of one device, for whoever
// asks often. The run is opened and prepared once, when it is first asked about. Of a run that is
// too long for memory, it is the steps around the peak.
//
// Safe to query from any number of threads.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>

#include "analysis/advice/prepared_run.h"
#include "analysis/timeline/timeline.h"
#include "report/view/answers/answers_json.h"
#include "session/advice/long_work.h"
#include "session/recording.h"

namespace gpumemprof {

class DeviceAdvice {
 public:
  using Open = std::function<Result<std::shared_ptr<const Recording>>()>;

  DeviceAdvice(DeviceIndex device, Open open) : device_(device), open_(std::move(open)) {}

  // What is tried on; an Error if it cannot be opened.
  [[nodiscard]] Result<std::shared_ptr<const Recording>> recording() const;
  // As `advise --json` has it. `fit_bytes`: with the cheapest remedies that fit into so much.
  [[nodiscard]] Result<Advice> advice(std::optional<std::uint64_t> fit_bytes,
                                      LongWork* work = nullptr) const;
  // "checkpointing+autocast_bf16", as `advise --together` has it, and the run with them.
  // The curve has at most so many points.
  static constexpr std::uint32_t kMostPoints = 2048;  // more than a screen shows
  [[nodiscard]] Result<view::PredictedTogether> together(
      const std::string& remedies, LongWork* work = nullptr,
      std::uint32_t most_points = kMostPoints) const;
  // The run under other settings of the allocator, as `simulate --json` has it.
  [[nodiscard]] Result<WhatIf> settings(std::vector<std::string> alloc_confs,
                                        LongWork* work = nullptr) const;

 private:
  struct Part {
    std::shared_ptr<const Recording> recording;
    std::size_t index = 0;  // of the device
    std::unique_ptr<EventTimes> times;

    [[nodiscard]] const DeviceRecord& record() const {
      return *recording->store().devices()[index];
    }
    // Of an excerpt: which part of the run.
    [[nodiscard]] const std::optional<ExcerptRange>& range() const {
      return recording->store().facts().device(record().device).excerpt;
    }
  };
  [[nodiscard]] const Result<Part>& part(LongWork* work) const;
  [[nodiscard]] Result<Part> open_part() const;
  [[nodiscard]] const Result<std::unique_ptr<PreparedRun>>& prepared(const Part& part) const;
  // The curve of the run, one point for so many events of it.
  [[nodiscard]] static Status take_curve(const Part& part, const PreparedRun& run,
                                         const std::vector<std::string>& names,
                                         std::uint32_t most_points, view::PredictedTogether& made);

  DeviceIndex device_;
  Open open_;
  mutable std::once_flag is_open_;
  mutable std::unique_ptr<const Result<Part>> part_;
  mutable std::once_flag is_prepared_;
  mutable std::unique_ptr<const Result<std::unique_ptr<PreparedRun>>> prepared_;
  mutable std::mutex mutex_;
  mutable std::map<std::optional<std::uint64_t>, Advice> known_;  // by what it is to fit into
};

}  // namespace gpumemprof
