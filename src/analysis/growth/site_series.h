// SiteSeries: what is live from one line of code at the floor of each step, and whether it grows.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <vector>

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
  // Nothing changes any more at floors before this one: they are summed up. From 1,024 floors on,
  // the middle of the series, from which on it must not slow down, is then known to one part in a
  // thousand; all else is exact.
  void settle(std::size_t before_floor);
  // None if it does not grow, or no longer does. `count`: floors in total.
  [[nodiscard]] std::optional<SiteGrowth> growth(std::size_t count) const;

 private:
  struct Change {
    std::int64_t bytes = 0;
    std::int64_t kept_bytes = 0;  // by allocations that are live at more than one floor
  };
  // What growth() needs to know of a stretch of floors.
  struct Sum {
    std::int64_t rises = 0;
    std::int64_t falls = 0;
    std::int64_t kept = 0;  // of the rises
    std::size_t times = 0;  // that it rose
    std::size_t first = 0;  // floor at which it rose
    std::size_t last = 0;
    std::size_t longest_pause = 1;
    std::int64_t warm_up_bytes = 0;  // of the last floor of the warm-up

    void add(std::size_t floor, const Change& change);
  };
  void add_settled(std::size_t floor, std::int64_t bytes);
  // What it rose by from this floor on, of those settled.
  [[nodiscard]] std::int64_t settled_since(std::size_t floor) const;

  std::map<std::size_t, Change> changes_;    // by floor; sparse: few floors change anything
  Sum settled_;                              // the floors before those
  std::vector<std::int64_t> settled_bytes_;  // of 2^settled_shift_ floors each
  unsigned settled_shift_ = 0;
};

}  // namespace gpumemprof
