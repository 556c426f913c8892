// Growth: memory that grows from training step to training step, and the lines of code that
// allocate it.
//
// Every step has a moment of least live memory, its floor. What is live at the floors of many steps
// and keeps increasing is growth. What is allocated once (optimizer state, workspaces), what fills
// up and stops (bounded caches) and what comes and goes is not. Whether growth is a bug, and who
// holds the memory, is another question. Bytes are requested bytes.
#pragma once

#include <cstdint>
#include <map>
#include <vector>

#include "analysis/code/allocation_site.h"
#include "analysis/growth/site_series.h"
#include "analysis/growth/step_floors.h"
#include "analysis/sources/sources.h"
#include "store/store.h"

namespace gpumemprof {

struct GrowthOptions {
  std::uint32_t fewest_steps = 5;  // fewer show nothing: the first two are warm-up
  // Growth below both is not reported: a list of scalars, say.
  std::uint64_t least_bytes = 64ULL << 10U;
  double least_share = 0.001;  // of the maximum live bytes
};

// A line of user code whose live memory keeps increasing.
struct GrowingLine {
  FrameId frame;             // none: no stack was recorded
  bool is_backward = false;  // allocated by the backward of this line
  std::uint64_t grown_bytes = 0;
  double bytes_per_step = 0;
  std::uint32_t since_step = 0;
};

struct Growth {
  bool is_known = false;  // false: too few steps to decide
  bool is_growing = false;
  std::uint32_t steps = 0;       // number of steps compared
  std::uint32_t since_step = 0;  // the first that left memory live
  std::uint32_t last_step = 0;
  std::uint64_t grown_bytes = 0;  // at the floor of the last step
  double bytes_per_step = 0;
  FrameId line;                    // the innermost line of user code that leads to nearly all of it
  std::vector<GrowingLine> lines;  // most bytes first
  std::vector<std::uint32_t> rows;  // of the device's allocations: what was kept, sorted
};

struct Lifetime {
  std::uint32_t birth = kNoEvent;
  std::uint32_t death = kNoEvent;
};

// Growth of a run whose floors and allocations become known part by part.
class GrowthSum {
 public:
  // The store must outlive it.
  explicit GrowthSum(const Store& store) : store_(store), sites_(store) {}

  // What the line that made a row holds at the floors.
  SiteSeries& series(const DeviceRecord& record, std::size_t row) {
    return series_[sites_.of(record, row).key()];
  }
  // No row changes floors before this one any more.
  void settle(std::size_t before_floor);
  // Without the rows.
  Growth finish(const StepFloors& floors, const GrowthOptions& options = {});
  // After finish(): whether a row is part of what grows. Asked in order of birth; the lifetime has
  // the numbers of the floors, the row those of its record.
  bool is_grown(const DeviceRecord& record, std::size_t row, Lifetime life,
                const StepFloors& floors, FloorCursor& cursor);

 private:
  void describe(const StepFloors& floors, Growth& growth) const;

  const Store& store_;
  AllocationSites sites_;
  std::map<std::uint64_t, SiteSeries> series_;   // by site
  std::map<std::uint64_t, SiteGrowth> growing_;  // likewise
};

Growth find_growth(const Store& store, const DeviceRecord& record,
                   const std::vector<PhaseSpan>& spans, const GrowthOptions& options = {});

}  // namespace gpumemprof
