// A made-up history that replay could have left behind: allocations and segments with lifetimes,
// stacks and times, small enough to be worked out by brute force.
#pragma once

#include <random>

#include "replay/replay.h"
#include "store/store.h"

namespace gpumemprof {

struct RandomHistory {
  explicit RandomHistory(unsigned seed, std::uint32_t events = 900);

  Store store;
  DeviceRecord* record = nullptr;
  DeviceReplay replay;  // only the peak is filled in, of short ones

  [[nodiscard]] std::uint64_t allocated_at(Moment moment) const;
};

}  // namespace gpumemprof
