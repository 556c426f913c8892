// A line of code with all that it allocated, as the JSON of stats and table has it.
#pragma once

#include <nlohmann/json.hpp>

#include "analysis/stats/run_stats.h"
#include "report/terminal/reported_input.h"

namespace gpumemprof::terminal {

inline nlohmann::ordered_json counted_json(const CountedBytes& counted) {
  return {{"count", counted.count}, {"bytes", counted.bytes}};
}

inline nlohmann::ordered_json line_json(const LineStats& line, const Store& store) {
  return {{"frame", frame_json(store, line.frame)},
          {"is_backward", line.is_backward},
          {"allocations", line.made.count},
          {"bytes", line.made.bytes},
          {"largest_bytes", line.largest_bytes},
          {"not_freed", counted_json(line.not_freed)},
          {"mean_lifetime_us", time_us_json(line.mean_lifetime_ns())}};
}

}  // namespace gpumemprof::terminal
