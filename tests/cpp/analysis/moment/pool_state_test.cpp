// The segments and blocks of a pool at a moment.
#include "analysis/moment/pool_state.h"

#include <gtest/gtest.h>

#include "analysis/moment/live_rows.h"
#include "analysis/random_history.h"
#include "base/bytes.h"
#include "replay/replay.h"

namespace gpumemprof {
namespace {

TEST(PoolStateTest, blocks_tile_their_segments_and_the_oldest_pins) {
  Store store;
  store.add_stream(0);
  EventColumns events;
  const auto add = [&](Action action, std::uint64_t address, std::uint64_t size) {
    Event event;
    event.action = action;
    event.address = address;
    event.size_bytes = size;
    event.time_ns = static_cast<std::int64_t>(events.size());
    events.push_back(event);
  };
  constexpr std::uint64_t kBase = 0x10000000;
  add(Action::segment_alloc, kBase, 20 * kMiB);
  add(Action::alloc, kBase, 4 * kMiB);
  add(Action::alloc, kBase + 4 * kMiB, 4 * kMiB);
  add(Action::alloc, kBase + 8 * kMiB, 4 * kMiB);
  add(Action::free_requested, kBase, 4 * kMiB);
  add(Action::free_completed, kBase, 4 * kMiB);
  add(Action::free_requested, kBase + 8 * kMiB, 4 * kMiB);  // a stream still uses it
  store.add_events(0, std::move(events));
  Origin origin;
  origin.has_traces = true;
  origin.has_start = true;
  store.set_origin(origin);
  DeviceRecord& record = *store.devices().front();
  replay_device(record, store.settings(), origin);
  const LiveRows live(record);
  const PoolState pool = pool_state_at(record, moment_of(7), live.active_at(7));
  ASSERT_EQ(pool.segments.size(), 1U);
  EXPECT_EQ(pool.reserved_bytes, 20 * kMiB);
  EXPECT_EQ(pool.allocated_bytes, 4 * kMiB);
  EXPECT_EQ(pool.waiting_bytes, 4 * kMiB);
  EXPECT_EQ(pool.free_bytes, 12 * kMiB);
  ASSERT_EQ(pool.blocks.size(), 4U);
  EXPECT_TRUE(pool.blocks[0].allocation.is_none());
  EXPECT_TRUE(pool.blocks[2].is_waiting);
  EXPECT_EQ(pool.segments[0].pin(), pool.blocks[1].allocation);
  EXPECT_EQ(pool_state_at(record, moment_of(7)).blocks.size(), pool.blocks.size());
  std::uint64_t position = kBase;
  for (const PoolBlock& block : pool.blocks) {
    EXPECT_EQ(block.address, position);
    position += block.size_bytes;
  }
}

TEST(PoolStateTest, of_any_moment_lists_every_active_block_once_and_tiles_every_segment) {
  const RandomHistory history(21, 300);
  const DeviceRecord& record = *history.record;
  for (std::uint32_t event = 0; event < record.events.size(); event += 7) {
    const Moment moment = Moment::after(event);
    const PoolState pool = pool_state_at(record, moment);
    std::size_t active = 0;
    for (std::size_t row = 0; row < record.allocations.size(); ++row) {
      if (record.allocations.is_active_at(row, moment)) ++active;
    }
    std::size_t used = pool.strays.size();
    for (const PoolSegment& segment : pool.segments) {
      std::uint64_t position = segment.state.address;
      std::uint64_t free_bytes = 0;
      for (const PoolBlock& block : pool.blocks_of(segment)) {
        EXPECT_EQ(block.address, position);
        position += block.size_bytes;
        if (block.is_free()) {
          free_bytes += block.size_bytes;
        } else {
          ++used;
        }
      }
      EXPECT_EQ(position, segment.state.address + segment.state.size_bytes);
      EXPECT_EQ(free_bytes, segment.free_bytes);
    }
    EXPECT_EQ(used, active);
    EXPECT_EQ(pool.allocated_bytes + pool.waiting_bytes + pool.free_bytes, pool.reserved_bytes);
  }
}

TEST(PoolStateTest, of_a_device_without_segments_lists_its_blocks_as_strays) {
  DeviceRecord record;
  AllocationColumns& rows = record.allocations;
  rows.address.push_back(0x1000);
  rows.size_bytes.push_back(512);
  rows.requested_bytes.push_back(500);
  rows.alloc_event.push_back(0);
  rows.free_requested_event.push_back(kNoEvent);
  rows.free_completed_event.push_back(kNoEvent);
  rows.stream.push_back(0);
  rows.stack.push_back(StackId());
  rows.segment.push_back(SegmentId());
  const PoolState pool = pool_state_at(record, Moment::end());
  EXPECT_TRUE(pool.segments.empty());
  ASSERT_EQ(pool.strays.size(), 1U);
  EXPECT_EQ(pool.strays[0].size_bytes, 512U);
  EXPECT_EQ(pool.allocated_bytes, 0U);
}

// A block may span pieces that were mapped for different halves of the pool.
TEST(PoolStateTest, adjacent_mapped_pieces_are_one_segment_whatever_they_were_mapped_for) {
  DeviceRecord record;
  SegmentColumns& rows = record.segments;
  for (std::uint32_t piece = 0; piece < 3; ++piece) {
    rows.address.push_back(0x40000000 + piece * 2 * kMiB);
    rows.size_bytes.push_back(2 * kMiB);
    rows.birth_event.push_back(kNoEvent);
    rows.death_event.push_back(kNoEvent);
    rows.stream.push_back(0);
    rows.pool.push_back(kNoPool);
    rows.is_small.push_back(piece == 2 ? 1 : 0);
    rows.is_expandable.push_back(1);
    rows.stack.push_back(StackId());
  }
  const PoolState pool = pool_state_at(record, Moment::end());
  ASSERT_EQ(pool.segments.size(), 1U);
  EXPECT_EQ(pool.segments[0].state.size_bytes, 6 * kMiB);
}

}  // namespace
}  // namespace gpumemprof
