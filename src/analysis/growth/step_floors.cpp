#include "analysis/growth/step_floors.h"

#include <algorithm>
#include <limits>

namespace gpumemprof {
namespace {

// After the last request of training: frees after it may be the program's teardown. Or at the first
// error in the last step.
std::uint32_t find_end_of_work(const DeviceRecord& record, const std::vector<PhaseSpan>& spans) {
  std::uint32_t last_step = 0;
  std::uint32_t end = 0;
  std::uint32_t start_of_last = 0;
  for (std::size_t index = 0; index < spans.size(); ++index) {
    if (spans[index].step != last_step) {
      last_step = spans[index].step;
      start_of_last = spans[index].first_event;
    }
    if (spans[index].phase == Phase::other) continue;
    end = index + 1 < spans.size() ? spans[index + 1].first_event
                                   : static_cast<std::uint32_t>(record.events.size());
  }
  for (std::uint32_t event = start_of_last; event < end; ++event) {
    if (record.events.action[event] == Action::oom) return event;
  }
  while (end > start_of_last && record.events.action[end - 1] != Action::alloc) --end;
  return end;
}

}  // namespace

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
  StepFloors floors;
  floors.end_of_work = find_end_of_work(record, spans);
  const EventColumns& events = record.events;
  std::int64_t live = 0;
  std::int64_t most = 0;
  std::int64_t least = 0;
  std::size_t span = 0;
  for (std::uint32_t event = 0; event < std::min<std::size_t>(floors.end_of_work, events.size());
       ++event) {
    while (span < spans.size() && spans[span].first_event <= event) {
      const std::uint32_t step = spans[span].step;
      if (step > 0 && (floors.steps.empty() || floors.steps.back().step != step)) {
        // The state that the previous step left.
        const std::uint32_t before = event == 0 ? 0 : event - 1;
        floors.steps.push_back({step, event, before});
        least = event == 0 ? std::numeric_limits<std::int64_t>::max() : live;
      }
      ++span;
    }
    // A damaged file may claim any size: the sums wrap, and floors fall at odd moments.
    const auto size = static_cast<std::int64_t>(events.size_bytes[event] & (kUnknownBytes >> 8U));
    if (events.action[event] == Action::alloc) {
      live += size;
    } else if (events.action[event] == Action::free_requested) {
      live -= size;
    }
    most = std::max(most, live);
    if (!floors.steps.empty() && live <= least) {
      least = live;
      floors.steps.back().event = event;
    }
  }
  floors.most_bytes = static_cast<std::uint64_t>(most);
  return floors;
}

}  // namespace gpumemprof
