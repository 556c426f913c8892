// LeakSum: the ground for a verdict about leaks, of a device that is read in windows. It grows with
// the floors, the lines of code and what is live at the end, not with the events.
#pragma once

#include "analysis/leaks/leak_ground.h"
#include "windows/survey.h"
#include "windows/window_taker.h"

namespace gpumemprof {

// The floors of repetitions that are not the steps of the run, by a pass of their own.
class FloorSurvey final : public WindowVisitor {
 public:
  // Both must outlive it.
  FloorSurvey(const Store& store, const Repetitions& repetitions);

  void visit(KeptRun& run, const Window& window) override;
  // After the last window. None: there are too many to hold.
  [[nodiscard]] std::optional<StepFloors> take_floors();

 private:
  Repetitions repetitions_;
  std::optional<BeginFinder> begins_;  // none: the spans are known
  FloorFinder floors_;
  StepFloors found_;
};

class LeakSum final : public WindowTaker {
 public:
  // All must outlive it; the floors are those of the survey's repetitions.
  LeakSum(const Store& store, const Survey::Result& survey, const StepFloors& floors);

  // A window of the second pass.
  void take(const KeptRun& run, const LocalView& view, const Window& window,
            const std::vector<PhaseSpan>& spans) override;
  // After the last one: the record has the numbers of the run.
  [[nodiscard]] LeakGround finish(const DeviceRecord& record);

 private:
  std::vector<std::int64_t> collections_ns_;
  LeakGround ground_;
  const StepFloors& floors_;
  TableFiller filler_;
};

}  // namespace gpumemprof
