// SiteSeries: what is live from one line of code at the floor of each step, and whether it grows.
#pragma once

#include <cstdint>
#include <map>
#include <optional>

#include "analysis/growth/step_floors.h"

namespace gpumemprof {

struct SiteGrowth {
  std::uint64_t bytes = 0;      // from the first floor that is higher than the one before
  std::size_t first_floor = 0;  // that floor; at least 1
};

class SiteSeries {
 public:
  // An allocation that is live at these floors.
  void add(FloorRange seen, std::uint64_t bytes);
  // The same while floors become known one after the other: it is first live at this floor, ...
  void rise(std::size_t floor, std::uint64_t bytes);
  // ... at the one after it too, ...
  void keep(std::size_t floor, std::uint64_t bytes);
  // ... and no longer at this one.
  void fall(std::size_t floor, std::uint64_t bytes);
  // Nothing changes any more at floors before this one: those without a change are forgotten.
  void settle(std::size_t before_floor);
  // None if it does not grow, or no longer does. `count`: floors in total.
  [[nodiscard]] std::optional<SiteGrowth> growth(std::size_t count) const;

 private:
  struct Change {
    std::int64_t bytes = 0;
    std::int64_t kept_bytes = 0;  // by allocations that are live at more than one floor
  };
  std::map<std::size_t, Change> changes_;  // by floor; sparse: few floors change anything
  std::size_t settled_ = 0;
};

}  // namespace gpumemprof
