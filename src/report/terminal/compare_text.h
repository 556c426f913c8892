// `gpumemprof compare`: two runs at their peaks, side by side.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "analysis/compare/run_compare.h"
#include "report/text/overview/overview_text.h"

namespace gpumemprof {

struct ShownComparison {
  ReportedSide first;
  ReportedSide second;
  std::vector<DeviceComparison> devices;
  std::string limit;  // as the user gave it; empty: none
  bool is_exceeded = false;
};

std::string compare_text(const ShownComparison& shown, const TextStyle& style);
// `top`: of each list.
std::string compare_json(const ShownComparison& shown, std::size_t top);

}  // namespace gpumemprof
