#include "capture/emitter.h"

#include <gtest/gtest.h>

#include <memory>

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
  EXPECT_EQ(event.stack, StackWord::none);
  EXPECT_EQ(event.lost_before, 0U);
}

TEST_F(EmitterOfEvents, the_next_event_of_a_device_tells_of_those_lost_before_it) {
  for (int turn = 0; turn < 4; ++turn) emit(0);
  for (int turn = 0; turn < 3; ++turn) emit(0);
  for (int turn = 0; turn < 2; ++turn) emit(5);
  for (int turn = 0; turn < 4; ++turn) EXPECT_EQ(taken().lost_before, 0U);
  emit(1);
  EXPECT_EQ(taken().lost_before, 0U);
  emit(5);
  EXPECT_EQ(taken().lost_before, 2U);
  emit(0);
  EXPECT_EQ(taken().lost_before, 3U);
  emit(0);
  emit(5);
  EXPECT_EQ(taken().lost_before, 0U);
  EXPECT_EQ(taken().lost_before, 0U);
}

TEST_F(EmitterOfEvents, what_no_event_told_of_is_left_to_take) {
  for (int turn = 0; turn < 6; ++turn) emit(0);
  EXPECT_EQ(emitter_.take_lost(0), 2U);
  EXPECT_EQ(emitter_.take_lost(0), 0U);
}

}  // namespace
}  // namespace gpumemprof::capture
