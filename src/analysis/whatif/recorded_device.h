// RecordedDevice: a device's recording as the simulator reads it: events, pools, the state it
// starts from, and the counters to match.
#pragma once

#include <string>
#include <vector>

#include "base/result.h"
#include "replay/replay.h"
#include "sim/recorded_run.h"
#include "store/store.h"

namespace gpumemprof {

// What replay counted, under torch's names. Only what the recording proves: retries, for example,
// leave no event. Of a run whose start was empty.
std::vector<sim::NamedCounter> recorded_counters(const DeviceReplay& replay);

class RecordedDevice {
 public:
  RecordedDevice(const Store& store, const DeviceRecord& record, const DeviceReplay& replay);
  RecordedDevice(const RecordedDevice&) = delete;
  RecordedDevice& operator=(const RecordedDevice&) = delete;

  [[nodiscard]] const sim::RecordedRun& run() const { return run_; }

 private:
  void find_pools(const DeviceRecord& record);

  std::vector<PoolId> pools_;
  std::vector<std::uint32_t> pool_of_event_;
  ListedState start_;
  std::vector<sim::NamedCounter> counters_;
  sim::RecordedRun run_;
};

}  // namespace gpumemprof
