// A synthetic history as replay could have produced it: allocations and segments with lifetimes,
// stacks and times, small enough to check by brute force.
#pragma once

#include <random>

#include "replay/replay.h"
#include "store/store.h"

namespace gpumemprof {

struct RandomHistory {
  explicit RandomHistory(unsigned seed, std::uint32_t events = 900);

  Store store;
  DeviceRecord* record = nullptr;
  DeviceReplay replay;  // only the peak is filled in, and only for short histories

  [[nodiscard]] std::uint64_t allocated_at(Moment moment) const;
};

}  // namespace gpumemprof
