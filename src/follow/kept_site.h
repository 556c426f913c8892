// KeptSite: a line of user code whose memory stays and becomes more, and where that memory is.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "event/event.h"
#include "follow/live_report.h"

namespace gpumemprof {

struct KeptBlock {
  std::uint64_t address = 0;
  std::uint64_t bytes = 0;  // requested
};

// Which of them, and how much of each.
struct KeptSitesWanted {
  std::size_t most_sites = 0;
  std::size_t most_blocks = 0;
  bool only_growing = false;  // false: also what has accumulated
};

struct KeptSite {
  DeviceIndex device = 0;
  LiveSite site;
  std::uint64_t bytes = 0;  // of the site, as in `site`
  // Not those of the step that is running; some of `old_blocks`, spread over their bytes, oldest
  // first.
  std::vector<KeptBlock> blocks;
  std::uint64_t old_blocks = 0;
  std::uint64_t old_bytes = 0;
};

}  // namespace gpumemprof
