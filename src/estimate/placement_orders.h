// PlacementOrders: the same requests, served by allocators whose segments lie in other orders.
//
// Of free blocks of equal size, torch takes the one with the lowest address, so the order in which
// the driver places segments can decide where a block goes and whether the pool has to grow later.
// That order differs from run to run. The peaks of these allocators say how much depends on it.
//
// Owns the allocators. Pools and stream pools must be added in the order of the device's own
// allocator, so that they have the same numbers. Memory has no limit here; where the device ran
// into its own, the figures mean nothing. Not thread-safe.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "sim/allocator/allocator.h"

namespace gpumemprof::estimate {

class PlacementOrders {
 public:
  explicit PlacementOrders(const sim::AllocatorOptions& options);
  ~PlacementOrders();
  PlacementOrders(const PlacementOrders&) = delete;
  PlacementOrders& operator=(const PlacementOrders&) = delete;

  void add_pool(sim::PoolKind kind);
  void add_stream_pool(const sim::StreamPoolKey& key);
  void allocate(AllocationId id, std::uint64_t size_bytes, sim::StreamPoolId stream_pool);
  void free(AllocationId id);
  void empty_cache();
  void release_pool(sim::PoolIndex pool);
  void empty_pool(sim::PoolIndex pool);

  // The peaks of reserved memory, one for each order.
  [[nodiscard]] std::vector<std::uint64_t> peak_reserved_bytes() const;

 private:
  struct Order;
  std::vector<std::unique_ptr<Order>> orders_;
};

}  // namespace gpumemprof::estimate
