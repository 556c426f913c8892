// Totals after every event, summed from the lifetimes that replay wrote. The rest of the product
// uses them this way, so a wrong lifetime shows here even where the player's own running totals
// are right.
#pragma once

#include <ostream>
#include <vector>

#include "replay/replay.h"
#include "store/store.h"

namespace gpumemprof {

inline std::ostream& operator<<(std::ostream& out, const MemoryTotals& totals) {
  return out << "{allocated " << totals.allocated_bytes << ", active " << totals.active_bytes
             << ", reserved " << totals.reserved_bytes << ", requested " << totals.requested_bytes
             << "}";
}

namespace test {

// Row i holds the totals after event i.
std::vector<MemoryTotals> timeline_of(const DeviceRecord& record);

// Free bytes in plain segments that also hold a block in use, after `event`: PyTorch's
// inactive_split_bytes.
std::uint64_t inactive_split_bytes_at(const DeviceRecord& record, std::uint32_t event);
// Plain segments that exist after `event`.
std::uint64_t segments_at(const DeviceRecord& record, std::uint32_t event);

}  // namespace test
}  // namespace gpumemprof
