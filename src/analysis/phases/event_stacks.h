// Which events of a history have stacks of their own. A snapshot may be recorded with stacks for
// requests only (a free then repeats the stack of its request), for both, or with none.
#pragma once

#include "store/store.h"

namespace gpumemprof {

constexpr bool is_request(Action action) {
  return action == Action::alloc || action == Action::segment_alloc ||
         action == Action::segment_map;
}

struct EventStacks {
  bool requests = false;
  bool frees = false;

  [[nodiscard]] bool has(Action action) const { return is_request(action) ? requests : frees; }
};

EventStacks find_event_stacks(const DeviceRecord& record);

}  // namespace gpumemprof
