#include "analysis/phases/event_stacks.h"

namespace gpumemprof {

EventStacks find_event_stacks(const DeviceRecord& record) {
  const AllocationColumns& rows = record.allocations;
  EventStacks stacks;
  std::size_t repeated = 0;
  std::size_t own = 0;
  for (std::size_t row = 0; row < rows.size(); ++row) {
    const std::uint32_t birth = rows.alloc_event[row];
    const std::uint32_t death = rows.free_requested_event[row];
    if (birth == kNoEvent) continue;
    const StackId stack = record.events.stack[birth];
    if (stack.is_none()) continue;
    stacks.requests = true;
    if (death == kNoEvent) continue;
    ++(record.events.stack[death] == stack ? repeated : own);
  }
  // A line that frees what it allocated has the same stack for both, so many frees may; but all of
  // them (except those that damaged histories match wrongly) only if frees have no stacks of their
  // own.
  constexpr std::size_t kNearlyAll = 1000;
  bool is_any_there = false;
  for (std::size_t event = 0; event < record.events.size() && !is_any_there; ++event) {
    is_any_there =
        !is_request(record.events.action[event]) && !record.events.stack[event].is_none();
  }
  stacks.frees = is_any_there && own * kNearlyAll > repeated;
  return stacks;
}

}  // namespace gpumemprof
