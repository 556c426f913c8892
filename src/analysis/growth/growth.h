// Growth: memory that grows from training step to training step, and the lines of code that
// allocate it.
//
// Every step has a moment of least live memory, its floor. What is live at the floors of many steps
// and keeps increasing is growth. What is allocated once (optimizer state, workspaces), what fills
// up and stops (bounded caches) and what comes and goes is not. Whether growth is a bug, and who
// holds the memory, is another question. Bytes are requested bytes.
#pragma once

#include <cstdint>
#include <vector>

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

Growth find_growth(const Store& store, const DeviceRecord& record,
                   const std::vector<PhaseSpan>& spans, const GrowthOptions& options = {});

}  // namespace gpumemprof
