// ReportedRun: any recording, for a report. A short one is read whole; a long one in windows, so
// that memory does not grow with it.
#pragma once

#include <memory>
#include <string>

#include "session/recording.h"
#include "session/run_index.h"
#include "windows/windowed_run.h"

namespace gpumemprof {

class ReportedRun {
 public:
  static Result<std::unique_ptr<ReportedRun>> open(const std::string& path,
                                                   const OpenOptions& options = {});

  [[nodiscard]] Result<Overview> overview(const OverviewOptions& options = {});
  [[nodiscard]] const Store& store() const;
  // Null if it was read in windows.
  [[nodiscard]] const Recording* whole() const { return whole_.get(); }
  // A sentence where the file was cut off; nothing where it is complete.
  [[nodiscard]] std::optional<Error> cut() const { return cut_in(store().origin(), path_); }
  // What the user should know about the index beside the recording; mostly empty.
  [[nodiscard]] const std::string& note() const { return note_; }

 private:
  Result<Overview> from_index(const OverviewOptions& options) const;
  Result<bool> survey();

  std::string path_;
  std::shared_ptr<const Recording> whole_;
  std::unique_ptr<WindowedRun> windowed_;
  std::unique_ptr<RunIndex> index_;
  bool has_index_ = true;
  bool is_surveyed_ = false;
  std::string note_;
};

}  // namespace gpumemprof
