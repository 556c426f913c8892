// Every allocation of a run, one after the other: of a recording that is held in memory, or of one
// that is read in windows, in memory that grows with what is live and not with the run.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "analysis/table/allocation_row.h"
#include "base/result.h"
#include "session/recording.h"

namespace gpumemprof {

// A row is complete when it is passed on: in windows, once its free was read, or at the end. The
// store is that of the run, and complete.
using TakeRow = std::function<void(const Store& store, const AllocationRow& row)>;

// From memory. The store is the recording's own.
void take_rows(const Recording& recording, const TakeRow& take);
// Reads the recording twice; returns the store that the rows refer to. Null if it cannot be read in
// windows, see TabledRun::open_in_windows().
Result<std::shared_ptr<const Store>> take_rows_in_windows(const std::string& path,
                                                          const TakeRow& take);

}  // namespace gpumemprof
