// What happens when the ring is full: every event is in the ring, in the log, or counted.
#include "capture/stream/losses.h"

#include <gtest/gtest.h>

namespace gpumemprof::capture {
namespace {

EventRecord cpu_event(Action action, std::uint64_t address, std::uint64_t ticks = 0) {
  EventRecord record;
  record.action = static_cast<std::uint8_t>(action);
  record.device = kCpuSlot;
  record.address = address;
  record.ticks = ticks;
  return record;
}

class LossesOfCpuMemory : public testing::Test {
 protected:
  using Fate = Losses::Fate;

  std::vector<LossEntry> collected() {
    std::vector<LossEntry> entries;
    losses_.collect(entries);
    return entries;
  }
  void lose(Action action, std::uint64_t address, bool was_sent = false) {
    losses_.lose(cpu_event(action, address), was_sent);
  }
  Fate freeing(std::uint64_t address) {
    return losses_.freeing(cpu_event(Action::free_requested, address));
  }
  void push(int records) {
    for (int record = 0; record < records; ++record) ring_.push(Record());
  }

  Ring ring_{64};
  std::atomic<bool> is_on_{false};
  Losses losses_{ring_, is_on_};
};

TEST_F(LossesOfCpuMemory, a_free_is_lost_with_its_allocation) {
  lose(Action::alloc, 0x40);
  EXPECT_EQ(freeing(0x40), Fate::lost_with_its_allocation);
  EXPECT_EQ(freeing(0x40), Fate::unknown);
  const std::vector<LossEntry> entries = collected();
  ASSERT_EQ(entries.size(), 1U);
  EXPECT_EQ(entries[0].lost, (EventCounts{1, 1, 0}));
}

TEST_F(LossesOfCpuMemory, a_free_that_found_the_ring_full_is_logged_at_its_place) {
  push(3);
  lose(Action::alloc, 0x40);
  losses_.note_sent(0x80);
  EXPECT_EQ(freeing(0x80), Fate::was_sent);
  push(2);
  lose(Action::free_requested, 0x80, true);
  lose(Action::free_requested, 0xC0);
  const std::vector<LossEntry> entries = collected();
  ASSERT_EQ(entries.size(), 3U);
  EXPECT_EQ(entries[0].address, 0U);
  EXPECT_EQ(entries[0].position, 3U);
  EXPECT_EQ(entries[1].address, 0x80U);
  EXPECT_EQ(entries[1].position, 5U);
  EXPECT_EQ(entries[2].address, 0xC0U);
  EXPECT_EQ(entries[2].lost.total(), 0U);
}

TEST_F(LossesOfCpuMemory, what_was_lost_some_time_ago_is_left_to_the_drain) {
  Epoch epoch = 0;
  lose(Action::alloc, 0x40);
  EXPECT_FALSE(losses_.take_lost(0x40, epoch)) << "callbacks still see to it";
  collected();
  losses_.end_if_over(0);
  ASSERT_FALSE(is_on_);
  push(2);  // perhaps its free, and another allocation at its address
  lose(Action::alloc, 0x80);
  EXPECT_EQ(freeing(0x40), Fate::unknown);
  EXPECT_TRUE(losses_.take_lost(0x40, epoch));
  EXPECT_FALSE(losses_.take_lost(0x40, epoch));
}

TEST_F(LossesOfCpuMemory, times_of_losing_add_up) {
  Epoch epoch = 0;
  for (const std::uint64_t address : {0x40U, 0x80U, 0xC0U}) {
    lose(Action::alloc, address);
    collected();
    losses_.end_if_over(0);
  }
  for (const std::uint64_t address : {0x40U, 0x80U, 0xC0U})
    EXPECT_TRUE(losses_.take_lost(address, epoch)) << address;
  EXPECT_FALSE(losses_.take_lost(0x40, epoch));
}

TEST_F(LossesOfCpuMemory, losses_of_memory_from_before_a_recording_have_an_earlier_epoch) {
  lose(Action::alloc, 0x40);
  const Epoch second = losses_.next_epoch();
  lose(Action::alloc, 0x80);
  freeing(0x40);
  const std::vector<LossEntry> entries = collected();
  ASSERT_EQ(entries.size(), 3U);
  EXPECT_LT(entries[0].epoch, second);
  EXPECT_EQ(entries[1].epoch, second);
  EXPECT_EQ(entries[1].lost, (EventCounts{1, 0, 0}));
  EXPECT_LT(entries[2].epoch, second);
  EXPECT_EQ(entries[2].lost, (EventCounts{0, 1, 0}));
}

TEST_F(LossesOfCpuMemory, a_command_parts_what_was_lost_before_it_from_what_is_lost_after) {
  lose(Action::alloc, 0x40);
  EXPECT_EQ(losses_.seal(), 1U);
  lose(Action::alloc, 0x80);
  EXPECT_EQ(losses_.seal(), 2U);
  EXPECT_EQ(collected().size(), 2U);
}

TEST_F(LossesOfCpuMemory, it_is_over_when_the_drain_has_taken_all_of_it) {
  push(4);
  lose(Action::alloc, 0x40);
  losses_.end_if_over(4);
  EXPECT_TRUE(is_on_) << "the log is not empty";
  collected();
  losses_.end_if_over(3);
  EXPECT_TRUE(is_on_) << "the ring still holds what came before";
  losses_.end_if_over(4);
  EXPECT_FALSE(is_on_);
  Epoch epoch = 0;
  EXPECT_TRUE(losses_.take_lost(0x40, epoch)) << "what was lost stays known";
}

}  // namespace
}  // namespace gpumemprof::capture
