// What NCCL's communicators hold on each card, outside of torch's pool.
//
// torch's calls that make and end communicators are redirected to our hooks, which pass them on.
// From NCCL 2.29.7 the library itself says how many bytes a communicator holds (measured). Older
// ones do not: then the card's use is read before and after the calls in which NCCL allocates,
// those that make a communicator and the first collectives, and the difference is theirs (inferred:
// another thread may have allocated meanwhile). Nothing is linked and no call is made from a
// callback of the allocator.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "event/event.h"

namespace gpumemprof::capture {

// From now on communicators on this card count. Does nothing if torch has no NCCL.
void watch_communicators(DeviceIndex device, const std::string& uuid);

// "device 0 nccl_communicators" and so on, for each card; the drain thread asks.
std::vector<std::pair<std::string, std::string>> communicator_facts();

}  // namespace gpumemprof::capture
