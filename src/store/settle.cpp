#include "store/settle.h"

#include <algorithm>

namespace gpumemprof {
namespace {

template <typename T>
void settle(std::vector<T>& rows, std::uint32_t last) {
  for (T& row : rows) row.before_event = std::min(row.before_event, last);
  const auto is_before = [](const T& a, const T& b) { return a.before_event < b.before_event; };
  if (!std::is_sorted(rows.begin(), rows.end(), is_before))
    std::stable_sort(rows.begin(), rows.end(), is_before);
}

}  // namespace

void settle_positions(DeviceRecord& record) {
  const auto last = static_cast<std::uint32_t>(record.events.size());
  settle(record.labellings, last);
  settle(record.phase_marks, last);
  settle(record.lost_events, last);
}

}  // namespace gpumemprof
