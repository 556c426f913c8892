#include "sim/requests.h"

#include <algorithm>

namespace gpumemprof::sim {

PoolIndex RequestColumns::add_pool(PoolKind kind_of_pool) {
  pools.push_back(kind_of_pool);
  return PoolIndex(pools.size() - 1);
}

LaneId RequestColumns::add_lane(const LaneKey& key) {
  const auto found = std::find(lanes.begin(), lanes.end(), key);
  if (found == lanes.end()) {
    lanes.push_back(key);
    return LaneId(lanes.size() - 1);
  }
  return LaneId(static_cast<std::size_t>(found - lanes.begin()));
}

AllocationId RequestColumns::add_allocation(std::uint64_t requested_bytes,
                                            LaneId lane_of_allocation) {
  size_bytes.push_back(requested_bytes);
  lane.push_back(lane_of_allocation);
  return AllocationId(size_bytes.size() - 1);
}

void RequestColumns::add(RequestKind request, std::uint32_t request_operand,
                         std::uint32_t recorded_event) {
  kind.push_back(request);
  operand.push_back(request_operand);
  event.push_back(recorded_event);
}

void RequestColumns::declare_lanes(Allocator& allocator) const {
  for (std::size_t pool = 1; pool < pools.size(); ++pool) allocator.add_pool(pools[pool]);
  for (const LaneKey& key : lanes) allocator.add_lane(key);
}

}  // namespace gpumemprof::sim
