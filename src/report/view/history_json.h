// A device's whole history as columns, from which the page computes any moment itself.
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

// False where a browser, whose numbers are exact only up to 2^53, could not read it.
bool can_write_history(const DeviceRecord& record);

// Columns are differences from row to row. Empty where it would be far larger than a page can hold.
std::string history_json(const HistoryParts& parts);

}  // namespace gpumemprof::view
