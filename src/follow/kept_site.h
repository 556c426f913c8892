// KeptSite: a line of user code whose memory stays and becomes more, and where that memory is.
#pragma once

#include <cstdint>
#include <vector>

#include "event/event.h"
#include "follow/live_report.h"

namespace gpumemprof {

struct KeptBlock {
  std::uint64_t address = 0;
  std::uint64_t bytes = 0;  // requested
};

struct KeptSite {
  DeviceIndex device = 0;
  LiveSite site;
  std::uint64_t bytes = 0;  // of the site, as in `site`
  // Not those of the step that is running; spread evenly, oldest first, from `old_blocks`.
  std::vector<KeptBlock> blocks;
  std::uint64_t old_blocks = 0;
  std::uint64_t old_bytes = 0;
};

}  // namespace gpumemprof
