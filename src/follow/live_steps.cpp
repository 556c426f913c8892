#include "follow/live_steps.h"

#include <algorithm>

namespace gpumemprof {
namespace {

void join(LiveStep& step, const LiveStep& next) {
  step.peak_bytes = std::max(step.peak_bytes, next.peak_bytes);
  step.floor_bytes = std::min(step.floor_bytes, next.floor_bytes);
  step.end_bytes = next.end_bytes;
}

}  // namespace

void LiveSteps::close_stretch() {
  if (has_own_marks_ && !stretches_.empty()) {
    join(stretches_.front(), current_);
  } else {
    stretches_.push_back(current_);
  }
  current_.peak_bytes = current_.floor_bytes = current_.end_bytes;
}

void LiveSteps::close_step(std::size_t end) {
  if (end == 0) return;
  LiveStep step = stretches_.front();
  for (std::size_t index = 1; index < end; ++index) join(step, stretches_[index]);
  step.number = ++count_;
  steps_.push_back(step);
  if (steps_.size() > kMostKept) steps_.pop_front();
  stretches_.erase(stretches_.begin(), stretches_.begin() + static_cast<std::ptrdiff_t>(end));
}

bool LiveSteps::take(const PhaseMark& mark) {
  const std::uint32_t before = count_;
  close_stretch();
  if (mark.kind == PhaseMark::Kind::step_start) {
    // What came before the first is not a step.
    if (!has_own_marks_) {
      stretches_.clear();
      steps_.clear();
      count_ = 0;
    }
    has_own_marks_ = true;
    close_step(stretches_.size());
  } else if (!has_own_marks_ && mark.kind == PhaseMark::Kind::optimizer_end) {
    last_end_ = stretches_.size();
  } else if (!has_own_marks_ && !stepped_.insert(mark.number).second) {
    close_step(last_end_);
    last_end_ = 0;
    stepped_ = {mark.number};
  }
  return count_ != before;
}

std::vector<LiveStep> LiveSteps::latest(std::size_t most) const {
  const std::size_t count = std::min(most, steps_.size());
  std::vector<LiveStep> shown(steps_.end() - static_cast<std::ptrdiff_t>(count), steps_.end());
  if (stretches_.empty() && steps_.empty()) return shown;
  LiveStep running = current_;
  if (!stretches_.empty()) {
    running = stretches_.front();
    for (std::size_t index = 1; index < stretches_.size(); ++index)
      join(running, stretches_[index]);
    join(running, current_);
  }
  running.number = count_ + 1;
  shown.push_back(running);
  return shown;
}

}  // namespace gpumemprof
