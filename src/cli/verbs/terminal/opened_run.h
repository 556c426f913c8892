// What tree, stats, table and compare share: a recording of any length, its report, and all of its
// allocations.
#pragma once

#include <memory>
#include <string>

#include "cli/terminal.h"
#include "session/reported_run.h"
#include "session/tables/run_rows.h"

namespace gpumemprof::cli {

class OpenedRun {
 public:
  // With a line of progress, and with what the user should know about the index beside it.
  static Result<OpenedRun> open(const std::string& file, const OverviewOptions& options,
                                const Terminal& terminal);

  [[nodiscard]] const Overview& overview() const { return overview_; }
  [[nodiscard]] const Store& store() const { return run_->store(); }
  [[nodiscard]] std::optional<Error> cut() const { return run_->cut(); }

  // Every allocation, from memory or in windows. Rows refer to row_store(), which may be another
  // store than that of the report.
  Status take_rows(const TakeRow& take);
  [[nodiscard]] const Store& row_store() const { return row_store_ ? *row_store_ : store(); }
  [[nodiscard]] bool is_in_windows() const { return row_store_ != nullptr; }

  // The moment of each device that the report is about.
  [[nodiscard]] std::map<DeviceIndex, Moment> moments() const;

 private:
  std::string file_;
  Terminal terminal_;
  std::unique_ptr<ReportedRun> run_;
  Overview overview_;
  std::shared_ptr<const Store> row_store_;
};

}  // namespace gpumemprof::cli
