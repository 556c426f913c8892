// The first sentences about a device: whether it ran out of memory and why, how high its peak was,
// and whether its memory grows. The report begins with them, and so does the viewer.
#pragma once

#include <string>

#include "analysis/overview/overview.h"
#include "store/store.h"

namespace gpumemprof::text {

// "cuda:0 ran out of memory: …." For several errors only how many; empty: there was none.
std::string failure_headline(const DeviceOverview& device, const Store& store);
// "1: ….", one of several errors.
std::string one_failure(const DeviceOverview& device, std::size_t index, const Store& store);
// "cuda:0: peak 5.1 GiB allocated, 6 GiB reserved"
std::string peak_headline(const DeviceOverview& device, bool has_pool);

}  // namespace gpumemprof::text
