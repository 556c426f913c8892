// What a watcher of a run must see at once: failures, retries, growth, losses.
#pragma once

#include <vector>

#include "follow/live_report.h"

namespace gpumemprof {

// From the rest of the report; the most severe first.
std::vector<LiveNotice> find_notices(const LiveReport& report);

}  // namespace gpumemprof
