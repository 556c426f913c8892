// ReportedRun: any recording, for a report. A short one is read whole; a long one in windows, so
// that memory does not grow with it.
#pragma once

#include <memory>
#include <string>

#include "index/index_maker.h"
#include "index/run_index.h"
#include "session/excerpt/passes.h"
#include "session/recording.h"
#include "windows/windowed_run.h"

namespace gpumemprof {

class ReportedRun {
 public:
  // `is_passing`: it is read again soon, so no index is left beside it, and no failure of a long
  // run is proven. `proves_failures`: false where nobody looks at them; then a run that would be
  // read whole to prove one is not, and gets no index, which others rely on.
  static Result<std::unique_ptr<ReportedRun>> open(const std::string& path,
                                                   const OpenOptions& options = {},
                                                   bool is_passing = false,
                                                   bool proves_failures = true);

  [[nodiscard]] Result<Overview> overview(const OverviewOptions& options = {});
  // The verdict about leaks. None of a device whose repetitions are too many to compare.
  [[nodiscard]] Result<LeaksReport> leaks(const LeaksOptions& options = {});
  [[nodiscard]] const Store& store() const;
  // Null if it was read in windows.
  [[nodiscard]] const Recording* whole() const { return whole_.get(); }
  // A sentence where the file was cut off; nothing where it is complete.
  [[nodiscard]] std::optional<Error> cut() const { return cut_in(store().origin(), path_); }
  // What the user should know about the index beside the recording; mostly empty.
  [[nodiscard]] const std::string& note() const { return note_; }

 private:
  Result<Overview> make_overview(const OverviewOptions& options);
  Result<Overview> from_index(const OverviewOptions& options) const;
  Result<Overview> at_event(Overview overview, std::uint32_t event) const;
  Result<Overview> at_step(const OverviewOptions& options);
  Result<std::uint32_t> peak_of_step(const DeviceOverview& device, std::uint32_t step) const;
  Result<bool> survey();
  Result<Overview> read_again(const OverviewOptions& options, const LeaksOptions& leaks);

  std::string path_;
  std::shared_ptr<const Recording> whole_;
  std::unique_ptr<RunPasses> passes_;
  std::unique_ptr<WindowedRun> windowed_;
  std::unique_ptr<RunIndex> index_;
  std::unique_ptr<IndexMaker> maker_;  // while the second pass runs
  bool has_index_ = true;
  bool is_surveyed_ = false;
  std::string note_;
};

}  // namespace gpumemprof
