// Which allocations are made, freed or kept between two moments of a device's history, without a
// scan of all of it.
//
// The range from `from` to `to` holds the events between these two positions: what is live at `to`
// is what was live at `from`, with what was allocated and without what was freed.
#pragma once

#include "analysis/moment/live_rows.h"
#include "store/store.h"

namespace gpumemprof {

// A part of what happened in a range.
enum class RangePart : std::uint8_t {
  allocated,
  freed,
  survived,  // allocated in it, and live at its end
};
inline constexpr RangePart kRangeParts[] = {RangePart::allocated, RangePart::freed,
                                            RangePart::survived};
std::string_view range_part_name(RangePart part);

struct RangeRow {
  std::size_t row = 0;
  bool is_allocated = false;  // in the range; otherwise it was live before
  bool is_freed = false;      // in the range

  [[nodiscard]] bool is_in(RangePart part) const {
    switch (part) {
      case RangePart::allocated:
        return is_allocated;
      case RangePart::freed:
        return is_freed;
      case RangePart::survived:
        return is_allocated && !is_freed;
    }
    return false;
  }
};

// Calls visit(RangeRow) for each that is allocated or freed between the two.
template <typename Visit>
void visit_range(const DeviceRecord& record, const LiveRows& live, Position from, Position to,
                 const Visit& visit) {
  const AllocationColumns& rows = record.allocations;
  const auto is_freed_by = [&](std::size_t row, Position position) {
    const std::uint32_t event = rows.free_requested_event[row];
    return event != kNoEvent && position_after(event) <= position;
  };
  const Moment start = moment_of(from);
  for (const AllocationId row : live.active_at(from)) {
    if (rows.is_allocated_at(row.index, start) && is_freed_by(row.index, to))
      visit(RangeRow{row.index, false, true});
  }
  live.visit_born(from + 1, to,
                  [&](std::size_t row) { visit(RangeRow{row, true, is_freed_by(row, to)}); });
}

}  // namespace gpumemprof
