// LiveSteps: the peak and the floor of each training step, while the run goes on.
//
// A program with several optimizers ends a step with the last of them, which is known only when one
// of them steps again. So what lies between two marks is kept until then.
#pragma once

#include <cstdint>
#include <deque>
#include <set>
#include <vector>

#include "event/label.h"
#include "follow/live_report.h"

namespace gpumemprof {

class LiveSteps {
 public:
  // The allocated bytes changed.
  void note(std::uint64_t bytes) {
    current_.end_bytes = bytes;
    if (bytes > current_.peak_bytes) current_.peak_bytes = bytes;
    if (bytes < current_.floor_bytes) current_.floor_bytes = bytes;
  }
  // True: a step ended.
  bool take(const PhaseMark& mark);

  // The last of them, and the one that is running.
  [[nodiscard]] std::vector<LiveStep> latest(std::size_t most) const;

 private:
  static constexpr std::size_t kMostKept = 1024;

  void close_stretch();
  // The stretches before `end` are one step.
  void close_step(std::size_t end);

  std::deque<LiveStep> steps_;
  std::uint32_t count_ = 0;
  bool has_own_marks_ = false;       // the program marks its steps
  LiveStep current_;                 // since the last mark
  std::vector<LiveStep> stretches_;  // between the marks since the last step
  std::size_t last_end_ = 0;         // stretches before the last optimizer's end
  std::set<std::uint32_t> stepped_;  // the optimizers that stepped in this step
};

}  // namespace gpumemprof
