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

// The same, event by event: the record may hold a part of the run only.
class FloorFinder {
 public:
  // The next event of the run. `spans` are those of the run up to it at least.
  void note(std::uint32_t event, Action action, std::uint64_t size_bytes,
            const std::vector<PhaseSpan>& spans);
  // After the last event of the run: what follows the end of the work is forgotten.
  StepFloors finish(std::uint32_t events);

  // So far. Floors before this one change no more, whatever follows.
  [[nodiscard]] const std::vector<StepFloor>& steps() const { return now_.steps; }
  [[nodiscard]] std::size_t first_open() const { return first_open_; }

 private:
  // What a return to an earlier moment needs.
  struct State {
    std::size_t steps = 0;
    StepFloor last;
    std::int64_t most = 0;
    std::uint32_t event = 0;  // the first that it does not know
  };
  [[nodiscard]] State state(std::uint32_t event) const;
  void enter(const PhaseSpan& span, std::uint32_t event);

  StepFloors now_;
  std::int64_t live_ = 0;
  std::int64_t most_ = 0;
  std::int64_t least_ = 0;
  std::size_t span_ = 0;
  std::size_t first_open_ = 0;
  std::uint32_t step_ = 0;
  bool is_work_ = false;  // in a phase other than `other`
  bool has_work_ = false;
  State step_start_;
  State work_end_;                   // after the last phase
  State alloc_;                      // after the last allocation of the step
  State alloc_of_work_;              // the same before work_end_
  std::uint32_t start_of_step_ = 0;  // of the last step
  State oom_;                        // before the step's first error
  bool has_oom_ = false;
  bool has_alloc_ = false;
  bool has_alloc_of_work_ = false;
};

}  // namespace gpumemprof
