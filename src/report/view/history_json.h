// A device's whole history as columns, from which the page works out any moment by itself.
#pragma once

#include <span>
#include <string>

#include "analysis/moment/flame.h"
#include "report/view/view_json.h"

namespace gpumemprof::view {

struct HistoryParts {
  AllocationSource source;
  std::span<const Grouping* const> groupings;
  std::span<const FlameTree> flames;
};

// False where a browser, which counts exactly only to 2^53, could not read it.
bool can_write_history(const DeviceRecord& record);

// Columns are differences from row to row. Empty where it would be far more than a page has room
// for.
std::string history_json(const HistoryParts& parts);

}  // namespace gpumemprof::view
