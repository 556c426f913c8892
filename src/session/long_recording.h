// LongRecording: a recording too long for memory, opened for whoever would hold it. Its report
// comes from its index, which is made if there is none; what needs every event of some steps is
// read around the peak.
//
// May be used from several threads.
#pragma once

#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "session/recording.h"
#include "session/reported_run.h"

namespace gpumemprof {

class LongRecording {
 public:
  // Null: it is short, or must be read whole.
  static Result<std::shared_ptr<LongRecording>> open(const std::string& path,
                                                     const OpenOptions& options);

  [[nodiscard]] const std::string& path() const { return path_; }
  // What reports and tables refer to; no events.
  [[nodiscard]] const Store& store() const { return run_->store(); }
  [[nodiscard]] std::optional<Error> cut() const { return run_->cut(); }
  // What the user should know about the index; mostly empty.
  [[nodiscard]] const std::string& note() const { return run_->note(); }
  [[nodiscard]] const Completeness& completeness() const { return completeness_; }
  [[nodiscard]] std::uint64_t events() const { return events_; }
  // In order of device number.
  [[nodiscard]] const std::vector<std::string>& device_names() const { return device_names_; }

  [[nodiscard]] Result<Overview> overview(const OverviewOptions& options);
  [[nodiscard]] Result<LeaksReport> leaks(const LeaksOptions& options);
  // The steps around the peak, as a recording.
  [[nodiscard]] Result<std::shared_ptr<const Recording>> around_peak();

 private:
  std::string path_;
  OpenOptions options_;
  std::unique_ptr<ReportedRun> run_;
  Completeness completeness_;
  std::uint64_t events_ = 0;
  std::vector<std::string> device_names_;
  std::mutex reading_;  // guards the run and what follows
  std::shared_ptr<const Recording> around_peak_;
};

}  // namespace gpumemprof
