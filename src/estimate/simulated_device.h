// SimulatedDevice: a GPU that does not exist. A program's requests are served by the simulated
// caching allocator as they come, and everything it does is reported to the recorder, as torch's
// allocator would.
//
// Owns the allocator and the addresses. Any thread may call; calls are served one at a time.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/flat_map.h"
#include "base/result.h"
#include "estimate/driver_addresses.h"
#include "estimate/placement_orders.h"
#include "event/alloc_conf.h"
#include "event/event.h"
#include "sim/allocator/allocator.h"

namespace gpumemprof::estimate {

struct SimulatedDeviceOptions {
  DeviceIndex device = 0;
  std::uint64_t total_bytes = 0;
  std::uint64_t free_bytes = 0;  // what the driver can still give to the pool
  std::string settings;          // PYTORCH_CUDA_ALLOC_CONF
  TorchVersion version;
};

class SimulatedDevice {
 public:
  static Result<std::unique_ptr<SimulatedDevice>> create(const SimulatedDeviceOptions& options);

  // The address; none: out of memory, which is recorded.
  std::optional<std::uint64_t> allocate(std::uint64_t size_bytes, std::uint64_t stream,
                                        const PoolId& pool);
  // False: nothing is allocated there.
  bool free(std::uint64_t address);
  void empty_cache();
  // Nobody uses the pool any more: its memory may be returned.
  void release_pool(const PoolId& pool);
  // The same, and what is free of it is returned at once.
  void empty_pool(const PoolId& pool);
  // The most the process may reserve, as a fraction of the device's memory.
  void limit_fraction(double fraction);
  void reset_peaks();

  [[nodiscard]] sim::Counters counters() const;
  // Since the device was created, whatever the program has reset.
  [[nodiscard]] std::uint64_t peak_allocated_bytes() const;
  [[nodiscard]] std::uint64_t peak_reserved_bytes() const;
  // The lowest and the highest that it would be if segments were placed in other orders; both the
  // peak itself where memory ran short, since the limit then decides.
  [[nodiscard]] std::pair<std::uint64_t, std::uint64_t> peak_reserved_range() const;
  [[nodiscard]] std::uint64_t free_bytes() const;

 private:
  SimulatedDevice(SimulatedDeviceOptions options, const AllocConf& conf);

  sim::StreamPoolId stream_pool(std::uint64_t stream, const PoolId& pool);
  sim::PoolIndex pool_index(const PoolId& pool);
  void report_calls();
  void report(Action action, std::uint64_t address, std::uint64_t size_bytes, std::uint64_t stream,
              const PoolId& pool) const;
  void report_out_of_memory(std::uint64_t size_bytes, std::uint64_t stream, const PoolId& pool);
  [[nodiscard]] std::uint64_t room_bytes() const;

  struct Live {
    AllocationId id;
    std::uint64_t size_bytes = 0;
    std::uint64_t stream = 0;
    PoolId pool;
  };
  using Origin = std::pair<std::uint64_t, PoolId>;

  mutable std::mutex mutex_;
  SimulatedDeviceOptions options_;
  sim::AllocatorRules rules_;
  DriverAddresses addresses_;
  sim::Allocator allocator_;
  PlacementOrders other_orders_;
  std::map<std::uint64_t, Live> live_;  // by address
  std::map<Origin, sim::StreamPoolId> stream_pools_;
  std::vector<std::uint64_t> streams_ = {0};  // torch's numbers, by the simulator's
  std::vector<PoolId> pools_ = {PoolId()};    // by index
  std::uint32_t next_allocation_ = 0;
  std::uint64_t peak_allocated_bytes_ = 0;
  std::uint64_t peak_reserved_bytes_ = 0;
};

}  // namespace gpumemprof::estimate
