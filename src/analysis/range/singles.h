// Which allocations are drawn as bands of their own in a picture of a range: those that are high
// and long enough to be seen there, and of these the ones that take the most room. All others are
// combined by the page, so that nothing is missing from the total.
#pragma once

#include <optional>
#include <vector>

#include "analysis/moment/live_rows.h"
#include "analysis/timeline/timeline.h"
#include "store/store.h"

namespace gpumemprof {

struct SinglesQuery {
  Position from = 0;
  Position to = 0;  // [from, to)
  Axis axis = Axis::event;
  std::uint64_t least_bytes = 0;
  std::int64_t least_length = 0;  // within the range: events, or nanoseconds on the axis of time
  std::size_t most = 0;
};

struct SinglesPage {
  std::vector<AllocationId> rows;  // in order of birth
  std::uint64_t matches = 0;       // all that are live somewhere in the range
};

SinglesPage find_singles(const DeviceRecord& record, const LiveRows& live, const EventTimes& times,
                         const SinglesQuery& query);

}  // namespace gpumemprof
