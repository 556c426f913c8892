#include "store/store.h"

#include <gtest/gtest.h>

namespace gpumemprof {
namespace {

Event event_at(std::uint64_t address) {
  Event event;
  event.action = Action::alloc;
  event.address = address;
  return event;
}

TEST(StackTrie, shares_what_stacks_have_in_common) {
  StackTrie stacks;
  const StackId main = stacks.add(StackId(), FrameId(0));
  const StackId forward = stacks.add(main, FrameId(1));
  const StackId backward = stacks.add(main, FrameId(2));
  EXPECT_EQ(stacks.add(main, FrameId(1)), forward);
  EXPECT_NE(forward, backward);
  EXPECT_EQ(stacks.size(), 3U);
  EXPECT_EQ(stacks.caller(forward), main);
  EXPECT_TRUE(stacks.caller(main).is_none());
  EXPECT_EQ(stacks.frames_of(forward), (std::vector<FrameId>{FrameId(1), FrameId(0)}));
  EXPECT_TRUE(stacks.frames_of(StackId()).empty());
}

TEST(StackTrie, tells_recursion_of_different_depth_apart) {
  StackTrie stacks;
  StackId stack;
  for (int depth = 0; depth < 100; ++depth) stack = stacks.add(stack, FrameId(5));
  EXPECT_EQ(stacks.size(), 100U);
  EXPECT_EQ(stacks.frames_of(stack).size(), 100U);
}

TEST(StackTrie, checks_ids_it_never_gave_out) {
  StackTrie stacks;
  EXPECT_THROW(stacks.add(StackId(7), FrameId(0)), InternalError);
  EXPECT_THROW(stacks.add(StackId(), FrameId()), InternalError);
}

TEST(Store, keeps_equal_frames_once) {
  Store store;
  const StringId name = store.add_string("forward");
  const StringId file = store.add_string("model.py");
  const FrameId frame = store.add_frame({name, file, 7});
  EXPECT_EQ(store.add_frame({name, file, 7}), frame);
  EXPECT_NE(store.add_frame({name, file, 8}), frame);
  EXPECT_NE(store.add_frame({file, name, 7}), frame);
  EXPECT_EQ(store.frames().size(), 3U);
  EXPECT_EQ(store.text(store.frame(frame).name), "forward");
}

TEST(Store, keeps_very_many_frames_apart) {
  Store store;
  std::vector<FrameId> ids;
  for (std::uint32_t line = 0; line < 20000; ++line) {
    ids.push_back(store.add_frame({StringId(line % 13), StringId(line % 7), line / 91}));
  }
  for (std::uint32_t line = 0; line < 20000; ++line) {
    const Frame frame{StringId(line % 13), StringId(line % 7), line / 91};
    ASSERT_EQ(store.frame(ids[line]), frame);
    ASSERT_EQ(store.add_frame(frame), ids[line]);
  }
}

TEST(Store, gives_streams_and_pools_one_row_each) {
  Store store;
  const std::uint32_t stream = store.add_stream(0);
  EXPECT_EQ(store.add_stream(0), stream);
  EXPECT_NE(store.add_stream(0x55d0c0de), stream);
  EXPECT_EQ(store.stream_handle(stream), 0U);
  const std::uint32_t pool = store.add_pool({1, 0});
  const std::uint32_t other = store.add_pool({0, 1});
  EXPECT_NE(pool, other);
  EXPECT_EQ(store.add_pool({1, 0}), pool);
  EXPECT_EQ(store.add_pool({0, 1}), other);
  EXPECT_EQ(store.pool(other), (PoolId{0, 1}));
  EXPECT_EQ(store.pool_count(), 2U);
}

TEST(Store, puts_devices_in_order_and_appends_to_those_it_has) {
  Store store;
  for (const DeviceIndex device : {DeviceIndex{3}, DeviceIndex{0}, kHostDevice, DeviceIndex{3}}) {
    EventColumns events;
    events.push_back(event_at(static_cast<std::uint64_t>(device + 10)));
    store.add_events(device, std::move(events));
  }
  ASSERT_EQ(store.devices().size(), 3U);
  EXPECT_EQ(store.devices()[0]->device, kHostDevice);
  EXPECT_EQ(store.devices()[1]->device, 0);
  EXPECT_EQ(store.devices()[2]->device, 3);
  EXPECT_EQ(store.devices()[2]->events.size(), 2U);
  EXPECT_EQ(store.event_count(), 4U);
}

TEST(Store, names_devices_as_torch_does) {
  Store store;
  EXPECT_EQ(store.device_name(0), "cuda:0");
  EXPECT_EQ(store.device_name(kHostDevice), "host");
  Origin origin;
  origin.device_type = "xpu";
  store.set_origin(origin);
  EXPECT_EQ(store.device_name(2), "xpu:2");
}

TEST(Store, keeps_the_blocks_of_each_segment_together) {
  Store store;
  SegmentState segment;
  segment.address = 4096;
  const std::vector<BlockState> blocks(3);
  store.add_segment(StateEdge::end, segment, blocks);
  store.add_segment(StateEdge::end, segment, {});
  store.add_segment(StateEdge::end, segment, std::span(blocks).first(1));
  store.add_segment(StateEdge::start, segment, std::span(blocks).first(2));
  const DeviceRecord& device = *store.devices().at(0);
  ASSERT_EQ(device.final_state.segments.size(), 3U);
  EXPECT_EQ(device.final_state.blocks_of(0).size(), 3U);
  EXPECT_EQ(device.final_state.blocks_of(1).size(), 0U);
  EXPECT_EQ(device.final_state.blocks_of(2).size(), 1U);
  ASSERT_EQ(device.start_state.segments.size(), 1U);
  EXPECT_EQ(device.start_state.blocks_of(0).size(), 2U);
}

TEST(Lifetime, spans_from_its_birth_until_before_its_death) {
  const std::uint32_t birth = 3;
  const std::uint32_t death = 7;
  EXPECT_FALSE(Moment::after(2).is_within(birth, death));
  EXPECT_TRUE(Moment::after(3).is_within(birth, death));
  EXPECT_TRUE(Moment::after(6).is_within(birth, death));
  EXPECT_FALSE(Moment::after(7).is_within(birth, death));
  EXPECT_FALSE(Moment::start().is_within(birth, death));
  EXPECT_TRUE(Moment::start().is_within(kNoEvent, death));
  EXPECT_TRUE(Moment::after(0).is_within(kNoEvent, death));
  EXPECT_TRUE(Moment::end().is_within(birth, kNoEvent));
  EXPECT_FALSE(Moment::end().is_within(birth, death));
}

}  // namespace
}  // namespace gpumemprof
