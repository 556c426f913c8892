// The bounds on a pool at the moment a request failed: the limit on the process, and what the card
// had left, as far as the recording shows.
#pragma once

#include <optional>

#include "analysis/oom/oom.h"
#include "analysis/oom/streamed_history.h"

namespace gpumemprof {

// The card at one event, seen from a process whose pool holds `reserved_bytes`.
struct CardState {
  std::optional<std::uint64_t> total_bytes;    // available to processes
  std::optional<std::uint64_t> taken_bytes;    // by anything other than the pool
  std::optional<std::uint64_t> others_bytes;   // of these, by other processes
  std::optional<std::uint64_t> outside_bytes;  // by this process, outside its pool
  bool is_attributed = false;  // a sample near the event says which process held what
};
CardState card_at(const Store& store, const DeviceRecord& record,
                  const std::vector<DeviceSample>& samples, const OomReport& oom);

// The limit on the process: as the recording states it if that agrees with the failure, else what
// the failure and the earlier successes prove.
struct ProcessLimit {
  ByteRange bytes;
  bool is_stated = false;
};
std::optional<ProcessLimit> limit_at(const Store& store, const DeviceRecord& record,
                                     const DeviceReplay& replay, HistoryPart part,
                                     const WholeRun& whole, const OomReport& oom);

}  // namespace gpumemprof
