#include "sim/requests.h"

#include <algorithm>

namespace gpumemprof::sim {

PoolIndex RequestColumns::add_pool(PoolKind kind_of_pool) {
  pools.push_back(kind_of_pool);
  return PoolIndex(pools.size() - 1);
}

StreamPoolId RequestColumns::add_stream_pool(const StreamPoolKey& key) {
  const auto found = std::find(stream_pools.begin(), stream_pools.end(), key);
  if (found == stream_pools.end()) {
    stream_pools.push_back(key);
    return StreamPoolId(stream_pools.size() - 1);
  }
  return StreamPoolId(static_cast<std::size_t>(found - stream_pools.begin()));
}

AllocationId RequestColumns::add_allocation(std::uint64_t requested_bytes,
                                            StreamPoolId stream_pool_of_allocation) {
  size_bytes.push_back(requested_bytes);
  stream_pool.push_back(stream_pool_of_allocation);
  return AllocationId(size_bytes.size() - 1);
}

void RequestColumns::add(RequestKind request, std::uint32_t request_operand,
                         std::uint32_t recorded_event) {
  kind.push_back(request);
  operand.push_back(request_operand);
  event.push_back(recorded_event);
}

void RequestColumns::declare_stream_pools(Allocator& allocator) const {
  for (std::size_t pool = 1; pool < pools.size(); ++pool) allocator.add_pool(pools[pool]);
  for (const StreamPoolKey& key : stream_pools) allocator.add_stream_pool(key);
}

}  // namespace gpumemprof::sim
