// StepFloors: the moment of least live memory in every training step.
#pragma once

#include <cstdint>
#include <vector>

#include "analysis/sources/sources.h"
#include "store/store.h"

namespace gpumemprof {

struct StepFloor {
  std::uint32_t step = 0;
  std::uint32_t first_event = 0;  // of the step
  std::uint32_t event = 0;        // the floor is after it
};

// Floors [first, end) of a device's steps.
struct FloorRange {
  std::size_t first = 0;
  std::size_t end = 0;
};

struct StepFloors {
  std::vector<StepFloor> steps;
  std::uint64_t most_bytes = 0;   // that were live at any moment
  std::uint32_t end_of_work = 0;  // after the last event of training: what follows is teardown

  // The floors at which an allocation with this lifetime is live.
  [[nodiscard]] FloorRange seen_by(std::uint32_t birth, std::uint32_t death) const;
};

// Says for many allocations, queried in order of birth, whether they see a floor at all: nearly all
// of them do not.
class FloorCursor {
 public:
  explicit FloorCursor(const StepFloors& floors) : floors_(floors) {}
  [[nodiscard]] bool sees_any(std::uint32_t birth, std::uint32_t death) {
    while (next_ < floors_.steps.size() && floors_.steps[next_].event < birth) ++next_;
    return next_ < floors_.steps.size() && death > floors_.steps[next_].event;
  }

 private:
  const StepFloors& floors_;
  std::size_t next_ = 0;
};

StepFloors find_floors(const DeviceRecord& record, const std::vector<PhaseSpan>& spans);

}  // namespace gpumemprof
