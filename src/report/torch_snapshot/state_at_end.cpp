#include "report/torch_snapshot/state_at_end.h"

#include "analysis/moment/pool_state.h"

namespace gpumemprof {

ListedState state_at_end(const DeviceRecord& record, bool is_listed) {
  if (is_listed || record.events.empty()) return record.final_state;
  return listed_state(record, pool_state_at(record, Moment::end()));
}

}  // namespace gpumemprof
