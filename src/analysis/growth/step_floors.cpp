#include "analysis/growth/step_floors.h"

#include <algorithm>
#include <limits>

#include "analysis/growth/plausible_bytes.h"

namespace gpumemprof {
FloorRange StepFloors::seen_by(std::uint32_t birth, std::uint32_t death) const {
  const auto behind = [&](std::uint32_t event) {
    return static_cast<std::size_t>(
        std::partition_point(steps.begin(), steps.end(),
                             [&](const StepFloor& floor) { return floor.event < event; }) -
        steps.begin());
  };
  return {birth == kNoEvent ? 0 : behind(birth), behind(death)};
}

StepFloors find_floors(const DeviceRecord& record, const std::vector<PhaseSpan>& spans) {
  const EventColumns& events = record.events;
  FloorFinder finder;
  for (std::uint32_t event = 0; event < events.size(); ++event)
    finder.note(event, events.action[event], events.size_bytes[event], spans);
  return finder.finish(static_cast<std::uint32_t>(events.size()));
}

FloorFinder::State FloorFinder::state(std::uint32_t event) const {
  return {now_.steps.size(), now_.steps.empty() ? StepFloor() : now_.steps.back(), most_, event};
}

void FloorFinder::enter(const PhaseSpan& span, std::uint32_t event) {
  if (is_work_ && span.phase == Phase::other) {
    work_end_ = state(event);
    alloc_of_work_ = alloc_;
    has_alloc_of_work_ = has_alloc_;
  }
  if (span.step != step_) {
    step_ = span.step;
    start_of_step_ = event;
    step_start_ = state(event);
    has_oom_ = has_alloc_ = has_alloc_of_work_ = false;
  }
  if (span.step > 0 && (now_.steps.empty() || now_.steps.back().step != span.step)) {
    // The state that the previous step left.
    now_.steps.push_back({span.step, event, event == 0 ? 0 : event - 1});
    least_ = event == 0 ? std::numeric_limits<std::int64_t>::max() : live_;
  }
  is_work_ = span.phase != Phase::other;
  if (!is_work_) return;
  has_work_ = true;
  // The end of the work is in this step or in a later one.
  first_open_ = now_.steps.empty() ? 0 : now_.steps.size() - 1;
}

void FloorFinder::note(std::uint32_t event, Action action, std::uint64_t size_bytes,
                       const std::vector<PhaseSpan>& spans) {
  while (span_ < spans.size() && spans[span_].first_event <= event) enter(spans[span_++], event);
  if (action == Action::oom && !has_oom_) {
    has_oom_ = true;
    oom_ = event == start_of_step_ ? step_start_ : state(event);
  }
  const std::int64_t size = plausible_bytes(size_bytes);
  if (action == Action::alloc) {
    live_ += size;
  } else if (action == Action::free_requested) {
    live_ -= size;
  }
  most_ = std::max(most_, live_);
  if (!now_.steps.empty() && live_ <= least_) {
    least_ = live_;
    now_.steps.back().event = event;
  }
  if (action != Action::alloc) return;
  has_alloc_ = true;
  alloc_ = state(event + 1);
}

StepFloors FloorFinder::finish(std::uint32_t events) {
  if (is_work_) enter({events, Phase::other, step_}, events);
  State end = work_end_;
  if (!has_work_) {
    end = State();
  } else if (end.event > start_of_step_) {
    if (has_oom_ && oom_.event < end.event) {
      end = oom_;
    } else {
      end = has_alloc_of_work_ ? alloc_of_work_ : step_start_;
    }
  }
  StepFloors floors = std::move(now_);
  floors.steps.resize(end.steps);
  if (end.steps > 0) floors.steps.back() = end.last;
  floors.most_bytes = static_cast<std::uint64_t>(end.most);
  floors.end_of_work = end.event;
  return floors;
}

}  // namespace gpumemprof
