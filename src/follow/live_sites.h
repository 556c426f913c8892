// LiveSites: what each line of user code holds now, and whether that grows from step to step.
//
// Its memory grows with the number of lines that allocate, not with the run.
#pragma once

#include <algorithm>
#include <cstdint>
#include <deque>
#include <optional>
#include <string_view>
#include <vector>

#include "analysis/code/allocation_site.h"
#include "base/flat_map.h"
#include "follow/live_report.h"
#include "store/store.h"

namespace gpumemprof {

class LiveSites {
 public:
  // The store holds the stacks and must outlive it.
  explicit LiveSites(const Store& store) : store_(store), lines_(store) {}

  std::uint32_t site_of(Whence from);
  void add(std::uint32_t site, std::uint64_t bytes) {
    sites_[site].bytes += bytes;
    ++sites_[site].blocks;
  }
  void remove(std::uint32_t site, std::uint64_t bytes) {
    sites_[site].bytes -= bytes;
    --sites_[site].blocks;
  }
  // The steps, which are known later, reach up to this change.
  void settle(std::uint32_t site, std::int64_t bytes) {
    Site& changed = sites_[site];
    changed.settled_bytes += static_cast<std::uint64_t>(bytes);
    changed.low_bytes = std::min(changed.low_bytes, changed.settled_bytes);
  }
  // Of what is settled.
  void end_step();

  // Those that hold the most, and those that grow.
  [[nodiscard]] std::vector<LiveSite> largest(std::size_t most) const;
  [[nodiscard]] LiveSite describe(std::uint32_t site) const;
  [[nodiscard]] bool is_growing(std::uint32_t site) const {
    return growth(sites_[site]).has_value();
  }

 private:
  // A slow leak shows only every few steps.
  static constexpr std::size_t kFloors = 64;

  struct Site {
    StackId stack;
    bool is_backward = false;
    std::uint64_t bytes = 0;
    std::uint64_t blocks = 0;
    std::uint64_t settled_bytes = 0;
    std::uint64_t low_bytes = 0;       // of these, since the step began
    std::deque<std::uint64_t> floors;  // of the last steps
  };
  [[nodiscard]] static std::optional<double> growth(const Site& site);
  [[nodiscard]] LiveSite describe(const Site& site, std::string_view program_folder) const;

  const Store& store_;
  std::vector<Site> sites_;
  AllocationSites lines_;
  FlatMap<std::uint32_t> by_key_;  // of AllocationSite → row
};

}  // namespace gpumemprof
