// What was allocated, freed and kept between two moments: in all, by the code that allocated it, by
// source, and by the code that freed it.
#pragma once

#include <functional>
#include <map>
#include <vector>

#include "analysis/range/range_rows.h"
#include "event/memory_source.h"

namespace gpumemprof {

struct RangeCount {
  std::uint64_t bytes = 0;
  std::uint64_t blocks = 0;

  void add(std::uint64_t more_bytes, std::uint64_t more_blocks = 1) {
    bytes += more_bytes;
    blocks += more_blocks;
  }
  bool operator==(const RangeCount&) const = default;
};

struct RangeFigures {
  RangeCount allocated;
  RangeCount freed;
  RangeCount survived;

  void add(const RangeRow& row, std::uint64_t bytes);
  void add(const RangeFigures& other);
};

// The code that allocated something.
struct AllocatingCode {
  StackId stack;
  bool is_backward = false;  // then it is the stack of the forward
  auto operator<=>(const AllocatingCode&) const = default;
};

struct RangeChanges {
  RangeFigures all;
  std::map<AllocatingCode, RangeFigures> by_code;
  std::map<MemorySource, RangeFigures> by_source;  // empty: sources are not known
  // Of what was freed: where it was allocated, and the stack of the event that freed it.
  std::map<std::pair<AllocatingCode, StackId>, RangeCount> freed_at;

  // What was allocated and freed in the range that follows this one. What survives both does not
  // follow from the two.
  void add_moved(const RangeChanges& next);
  // The survivors of these.
  void add_survived(const RangeChanges& survivors);
};

// Of what is live at a position, all that is counted, as survivors.
RangeChanges survivors_at(const DeviceRecord& record, const LiveRows& live, Position at,
                          const std::function<bool(std::size_t row)>& is_counted);

RangeChanges changes_in(const DeviceRecord& record, const LiveRows& live, Position from,
                        Position to);

}  // namespace gpumemprof
