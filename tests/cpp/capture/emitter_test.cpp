#include "capture/stream/emitter.h"

#include <gtest/gtest.h>

#include <barrier>
#include <memory>
#include <set>
#include <thread>
#include <vector>

#include "event/event.h"

namespace gpumemprof::capture {
namespace {

struct FakeEvent {
  std::uint8_t where;

  [[nodiscard]] static bool is_alloc() { return true; }
  [[nodiscard]] static bool is_free_requested() { return false; }
  [[nodiscard]] std::uint8_t device() const { return where; }
  [[nodiscard]] static std::uint64_t address() { return 0x1000; }
  void write(EventRecord& record) const {
    record.action = static_cast<std::uint8_t>(Action::alloc);
    record.device = where;
    record.address = address();
  }
};

class EmitterOfEvents : public testing::Test {
 protected:
  void emit(std::uint8_t device) { emitter_.emit(FakeEvent{device}, StackUse::walk); }
  EventRecord taken() {
    Record record;
    EXPECT_TRUE(ring_.pop(record));
    EXPECT_EQ(record.kind, RecordKind::event);
    return record.event;
  }

  Ring ring_{4};
  std::unique_ptr<ThreadSlots> slots_ = std::make_unique<ThreadSlots>();
  Emitter emitter_{ring_, *slots_};
};

TEST_F(EmitterOfEvents, an_event_says_where_and_by_whom) {
  emitter_.set_tag(7);
  emit(3);
  const EventRecord event = taken();
  EXPECT_EQ(event.device, 3);
  EXPECT_EQ(event.address, 0x1000U);
  EXPECT_EQ(event.tag, 7);
  EXPECT_NE(event.thread, kNoThread);
  EXPECT_EQ(event.stack, StackChange::none);
}

TEST_F(EmitterOfEvents, what_finds_the_ring_full_is_counted_by_device) {
  for (int turn = 0; turn < 4; ++turn) emit(0);
  EXPECT_FALSE(emitter_.is_losing());
  for (int turn = 0; turn < 3; ++turn) emit(0);
  for (int turn = 0; turn < 2; ++turn) emit(5);
  EXPECT_TRUE(emitter_.is_losing());
  std::vector<LossEntry> entries;
  emitter_.losses().collect(entries);
  ASSERT_EQ(entries.size(), 2U);
  EXPECT_EQ(entries[0].device, 0);
  EXPECT_EQ(entries[0].lost.allocations, 3U);
  EXPECT_EQ(entries[0].position, 4U);
  EXPECT_EQ(entries[1].device, 5);
  EXPECT_EQ(entries[1].lost.allocations, 2U);
}

TEST_F(EmitterOfEvents, threads_that_live_at_once_have_slots_of_their_own) {
  constexpr std::size_t kThreads = 40;
  std::vector<std::uint16_t> numbers(kThreads);
  std::vector<std::uint16_t> tags(kThreads);
  std::barrier all(kThreads);
  {
    std::vector<std::jthread> threads;
    for (std::size_t index = 0; index < kThreads; ++index) {
      threads.emplace_back([&, index] {
        numbers[index] = slots_->mine()->number;
        emitter_.set_tag(static_cast<std::uint16_t>(index));
        all.arrive_and_wait();
        tags[index] = emitter_.tag();
        all.arrive_and_wait();
      });
    }
  }
  EXPECT_EQ(std::set<std::uint16_t>(numbers.begin(), numbers.end()).size(), kThreads);
  for (std::size_t index = 0; index < kThreads; ++index) EXPECT_EQ(tags[index], index);
}

}  // namespace
}  // namespace gpumemprof::capture
