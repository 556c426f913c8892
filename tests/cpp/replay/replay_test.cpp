// What replay reports when a recording has no history, no end, or neither.
#include <gtest/gtest.h>

#include "base/bytes.h"
#include "replay/fixture.h"
#include "replay/timeline.h"

namespace gpumemprof::test {
namespace {

constexpr std::uint64_t kSegment = 0x10000000;

Origin whole() {
  Origin origin;
  origin.has_segments = origin.has_traces = true;
  return origin;
}

Origin cut(bool has_segments) {
  Origin origin = whole();
  origin.has_segments = has_segments;
  origin.cut = CutPoint{100, "the file is truncated"};
  return origin;
}

Event event(Action action, std::uint64_t address, std::uint64_t size_bytes) {
  Event made;
  made.action = action;
  made.address = address;
  made.size_bytes = size_bytes;
  return made;
}

// A segment of 2 MiB with one block in use, one pending and the rest free.
void add_listed_segment(Store& store, DeviceIndex device = 0) {
  SegmentState segment;
  segment.device = device;
  segment.address = kSegment;
  segment.size_bytes = 2 * kMiB;
  segment.is_small = true;
  const BlockState blocks[] = {
      {kSegment, 1024, 1000, BlockStateKind::active_allocated, {}},
      {kSegment + 1024, 512, 500, BlockStateKind::active_pending_free, {}},
      {kSegment + 1536, 2 * kMiB - 1536, 7, BlockStateKind::inactive, {}},
  };
  store.add_segment(StateEdge::end, segment, blocks);
}

void add_events(Store& store, std::initializer_list<Event> events, DeviceIndex device = 0) {
  EventColumns columns;
  for (const Event& made : events) columns.push_back(made);
  store.add_events(device, std::move(columns));
}

DeviceReplay replayed(Store& store, const Origin& origin) {
  return replay_device(*store.devices().at(0), store.settings(), origin);
}

const MemoryTotals kListed{1024, 1536, 2 * kMiB, 1500};

TEST(Replay, of_segments_alone_knows_the_end) {
  Store store;
  add_listed_segment(store);
  const DeviceReplay replay = replayed(store, whole());
  EXPECT_FALSE(replay.has_history);
  EXPECT_TRUE(replay.has_end);
  EXPECT_EQ(replay.end.totals, kListed);
  EXPECT_EQ(replay.start, kListed);
  EXPECT_EQ(replay.peak, kListed);
  EXPECT_EQ(replay.peak_event, kNoEvent);
  EXPECT_EQ(replay.end.inactive_split_bytes, 2 * kMiB - 1536);
  EXPECT_EQ(replay.end.segments, 1U);
  EXPECT_EQ(replay.exact_from_event, 0U);
  EXPECT_EQ(store.devices()[0]->allocations.size(), 2U);
}

TEST(Replay, of_a_list_of_segments_that_breaks_off_claims_nothing) {
  Store store;
  add_listed_segment(store);
  const DeviceReplay replay = replayed(store, cut(false));
  EXPECT_FALSE(replay.has_end);
  EXPECT_EQ(replay.exact_from_event, std::nullopt);
}

TEST(Replay, of_a_trace_that_breaks_off_claims_no_end) {
  Store store;
  add_listed_segment(store);
  add_events(store, {event(Action::segment_alloc, kSegment, 2 * kMiB),
                     event(Action::alloc, kSegment, 1000)});
  const DeviceReplay replay = replayed(store, cut(true));
  EXPECT_TRUE(replay.has_history);
  EXPECT_FALSE(replay.has_end);
  EXPECT_EQ(replay.exact_from_event, std::nullopt);
  EXPECT_EQ(replay.end.totals, (MemoryTotals{1024, 1024, 2 * kMiB, 1000}));
}

TEST(Replay, of_pinned_host_memory_is_its_end) {
  Store store;
  add_listed_segment(store, kHostDevice);
  add_events(store, {event(Action::alloc, kSegment, 1000)}, kHostDevice);
  const DeviceReplay replay = replayed(store, whole());
  EXPECT_EQ(replay.end.totals, kListed);
  EXPECT_EQ(replay.peak, kListed);
  EXPECT_EQ(store.devices()[0]->allocations.size(), 2U);
}

TEST(Replay, takes_blocks_from_before_the_history_as_they_are_listed) {
  Store store;
  add_listed_segment(store);
  add_events(store, {event(Action::free_requested, kSegment + 1024, 500)});
  const DeviceReplay replay = replayed(store, whole());
  EXPECT_EQ(replay.exact_from_event, 0U);
  EXPECT_EQ(replay.blocks_from_before, 2U);
  EXPECT_EQ(replay.start, (MemoryTotals{1536, 1536, 2 * kMiB, 1500}));
  EXPECT_EQ(replay.end.totals, kListed);
  EXPECT_EQ(replay.peak_event, kNoEvent) << "most was allocated before the first event";
}

TEST(Replay, of_a_block_let_go_before_the_history_began_is_pending_at_its_start) {
  Store store;
  add_listed_segment(store);
  add_events(store, {event(Action::free_completed, kSegment + 4096, 600)});
  const DeviceReplay replay = replayed(store, whole());
  EXPECT_EQ(replay.exact_from_event, 0U);
  EXPECT_EQ(replay.start, (MemoryTotals{1024, 1536 + 1024, 2 * kMiB, 2100}));
  EXPECT_EQ(timeline_of(*store.devices()[0]).at(0), kListed);
}

TEST(Replay, without_segments_is_played_from_nothing) {
  Store store;
  Origin origin = whole();
  origin.has_segments = false;
  add_events(store,
             {event(Action::segment_alloc, kSegment, 2 * kMiB), event(Action::alloc, kSegment, 1),
              event(Action::alloc, kSegment + 512, 1), event(Action::free_requested, kSegment, 1)});
  const DeviceReplay replay = replayed(store, origin);
  EXPECT_EQ(replay.end.totals, (MemoryTotals{512, 1024, 2 * kMiB, 2}));
  EXPECT_EQ(replay.peak.allocated_bytes, 1024U);
  EXPECT_EQ(replay.peak_event, 2U);
  EXPECT_EQ(replay.exact_from_event, std::nullopt)
      << "nothing proves that the history began with the process";
}

TEST(Replay, follows_a_recording_that_contradicts_itself) {
  Store store;
  add_listed_segment(store);
  constexpr std::uint64_t kHuge = ~std::uint64_t{0};
  add_events(
      store,
      {event(Action::alloc, kHuge, kHuge), event(Action::alloc, 0, kHuge),
       event(Action::segment_alloc, kHuge - 5, 100), event(Action::segment_map, 0, 0),
       event(Action::segment_free, kSegment, 2 * kMiB),
       event(Action::segment_unmap, kSegment, kHuge), event(Action::free_completed, kSegment, 3),
       event(Action::free_requested, kSegment, 3), event(Action::alloc, kSegment + 100, 50),
       event(Action::alloc, kSegment + 100, 50)});
  const DeviceReplay replay = replayed(store, whole());
  EXPECT_GT(replay.contradictions, 3U);
  EXPECT_EQ(replay.end.totals, kListed);
  EXPECT_EQ(replay.exact_from_event, std::nullopt);
}

}  // namespace
}  // namespace gpumemprof::test
