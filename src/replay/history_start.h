// HistoryStart: what the allocator held before the first recorded event, found by playing the
// events backwards from the segments listed at the end.
#pragma once

#include <map>
#include <vector>

#include "event/allocator_settings.h"
#include "store/store.h"

namespace gpumemprof {

struct StartBlock {
  std::uint64_t address = 0;
  std::uint64_t size_bytes = 0;
  std::uint64_t requested_bytes = 0;
  std::uint32_t stream = 0;
  StackId stack;
  bool is_pending = false;
  bool is_size_certain = false;
};

// A plain segment or a contiguous mapped run, with the blocks that were in use, in address order.
struct StartSegment {
  SegmentState state;
  std::vector<StartBlock> blocks;
};

struct HistoryStart {
  std::vector<StartSegment> segments;  // in address order

  // Sets the size of a block once later events prove it; false where there is no such block or its
  // size is already known.
  bool correct_size(std::uint64_t address, std::uint64_t size_bytes);
};

// A start in which everything listed was already there.
HistoryStart listed_history_start(const ListedState& listed);

HistoryStart find_history_start(const DeviceRecord& record, const AllocatorSettings& settings);

}  // namespace gpumemprof
