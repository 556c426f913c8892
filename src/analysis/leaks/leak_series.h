// Leak series: what each leaking line has live at the floor of each repetition.
#pragma once

#include <cstdint>
#include <vector>

#include "analysis/leaks/leaks.h"

namespace gpumemprof {

struct LeakSeries {
  std::vector<std::uint32_t> step;                // of each floor
  std::vector<std::vector<std::uint64_t>> bytes;  // by leak, as in DeviceLeaks, then by floor
};

// The ground must be that of the leaks, from a whole recording. What a line has live under other
// stacks that end at it is counted with it.
LeakSeries find_leak_series(const Store& store, const LeakGround& ground, const DeviceLeaks& leaks);

}  // namespace gpumemprof
