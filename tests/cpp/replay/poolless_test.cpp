#include "replay/poolless.h"

#include <gtest/gtest.h>

namespace gpumemprof {
namespace {

void add(DeviceRecord& record, Action action, std::uint64_t address, std::uint64_t size) {
  Event event;
  event.action = action;
  event.address = address;
  event.size_bytes = size;
  record.events.push_back(event);
}

TEST(Poolless, takes_a_block_for_what_was_asked) {
  DeviceRecord record;
  add(record, Action::alloc, 64, 100);
  add(record, Action::alloc, 256, 7);
  add(record, Action::free_requested, 64, 100);
  add(record, Action::free_completed, 64, 100);
  const DeviceReplay replay = replay_poolless(record);
  EXPECT_EQ(replay.peak, (MemoryTotals{107, 107, 107, 107}));
  EXPECT_EQ(replay.peak_event, 1U);
  EXPECT_EQ(replay.end.totals, (MemoryTotals{7, 7, 7, 7}));
  EXPECT_EQ(replay.exact_from_event, 0U);
  EXPECT_EQ(record.allocations.free_completed_event[0], 3U);
  EXPECT_EQ(record.allocations.free_completed_event[1], kNoEvent);
}

TEST(Poolless, ends_a_block_whose_free_is_missing) {
  DeviceRecord record;
  add(record, Action::alloc, 64, 100);
  add(record, Action::alloc, 64, 30);
  const DeviceReplay replay = replay_poolless(record);
  EXPECT_EQ(replay.end.totals.allocated_bytes, 30U);
  EXPECT_EQ(replay.contradictions, 1U);
  EXPECT_FALSE(replay.exact_from_event.has_value());
}

}  // namespace
}  // namespace gpumemprof
