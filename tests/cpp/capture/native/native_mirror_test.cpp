// Native stacks on their way from a callback through the ring to the drain's mirror.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <memory>
#include <thread>
#include <vector>

#include "capture/native/native_walker.h"
#include "capture/stacks/stack_mirror.h"
#include "capture/stream/emitter.h"
#include "event/event.h"

namespace gpumemprof::capture {
namespace {

struct StackedEvent {
  [[nodiscard]] static bool is_alloc() { return true; }
  [[nodiscard]] static bool is_free_requested() { return false; }
  [[nodiscard]] static std::uint8_t device() { return 0; }
  [[nodiscard]] static std::uint64_t address() { return 0x1000; }
  static void write(EventRecord& record) {
    record.action = static_cast<std::uint8_t>(Action::alloc);
    record.address = address();
  }
};

class NativeMirror : public testing::Test {
 protected:
  NativeMirror() { emitter_.set_native_walker(&walker_); }

  [[gnu::noinline]] int emit() {
    emitter_.emit(StackedEvent(), StackUse::walk);
    return 0;
  }
  [[gnu::noinline]] int emit_deeper(int depth) {
    volatile int kept = depth;
    if (depth > 0) emit_deeper(depth - 1);
    if (depth == 0) emit();
    return kept;
  }
  // Takes what is in the ring; the depth of the event's stack, 0 if it has none.
  std::size_t taken() {
    Record record;
    native_records_ = 0;
    while (ring_.pop(record)) {
      if (record.kind == RecordKind::native) {
        ++native_records_;
        mirror_.take(record.native);
      }
      if (record.kind != RecordKind::event || record.event.native == kNoNative) continue;
      const StackId stack =
          mirror_.native_stack_of(record.event.thread, record.event.native, StackId());
      std::size_t depth = 0;
      for (StackId at = stack; !at.is_none(); at = mirror_.caller(at)) ++depth;
      return depth;
    }
    return 0;
  }

  Ring ring_{64};
  std::unique_ptr<ThreadSlots> slots_ = std::make_unique<ThreadSlots>();
  Emitter emitter_{ring_, *slots_};
  NativeWalker walker_{{}};
  StackMirror mirror_;
  int native_records_ = 0;
  std::size_t sent_ = 0;
};

TEST_F(NativeMirror, an_unchanged_stack_is_not_sent_again) {
  std::size_t first = 0;
  for (int turn = 0; turn < 3; ++turn) {
    emit();
    const std::size_t depth = taken();
    if (turn == 0) first = depth;
    EXPECT_EQ(depth, first);
    EXPECT_EQ(native_records_ > 0, turn == 0);
  }
  EXPECT_GT(first, 5U);
}

TEST_F(NativeMirror, only_what_changed_is_sent) {
  emit_deeper(3);
  const std::size_t shallow = taken();
  emit_deeper(20);
  EXPECT_EQ(taken(), shallow + 17);
  EXPECT_LE(native_records_, 5);
  emit_deeper(3);
  EXPECT_EQ(taken(), shallow);
}

TEST_F(NativeMirror, a_stack_is_sent_once_whatever_comes_in_between) {
  std::map<int, std::size_t> depths;
  for (int turn = 0; turn < 5; ++turn) {
    for (const int deeper : {3, 20, 7, 3, 12}) {
      emit_deeper(deeper);
      const std::size_t depth = taken();
      EXPECT_EQ(depths.emplace(deeper, depth).first->second, depth);
      EXPECT_EQ(native_records_ > 0, turn == 0 && depths.size() > sent_) << turn << " " << deeper;
      sent_ = depths.size();
    }
  }
  EXPECT_EQ(depths[20], depths[3] + 17);
}

// Slots serve one thread after the other, and the drain's mirror of them stays.
TEST_F(NativeMirror, threads_that_follow_each_other_have_their_own_stacks) {
  std::size_t first = 0;
  for (int turn = 0; turn < 4; ++turn) {
    std::thread([&] { emit_deeper(turn % 2 == 0 ? 4 : 9); }).join();
    const std::size_t depth = taken();
    if (turn == 0) first = depth;
    EXPECT_EQ(depth, first + (turn % 2 == 0 ? 0U : 5U));
  }
  EXPECT_GT(first, 4U);
}

TEST_F(NativeMirror, a_stack_that_did_not_fit_is_sent_whole_the_next_time) {
  emit_deeper(3);
  const std::size_t depth = taken();
  for (int turn = 0; turn < 100; ++turn) emit_deeper(turn % 7);  // the ring is full at some point
  Record record;
  while (ring_.pop(record))
    if (record.kind == RecordKind::native) mirror_.take(record.native);
  emit_deeper(3);
  // While events are being lost, there is a frame more of the recorder's own.
  EXPECT_THAT(taken(), testing::AnyOf(depth, depth + 1));
}

TEST_F(NativeMirror, frames_belong_to_modules) {
  emit();
  Record record;
  StackId stack;
  while (ring_.pop(record)) {
    if (record.kind == RecordKind::native) mirror_.take(record.native);
    if (record.kind == RecordKind::event)
      stack = mirror_.native_stack_of(record.event.thread, record.event.native, StackId());
  }
  ASSERT_FALSE(stack.is_none());
  const NativeModule* module = mirror_.native_module(mirror_.frame(mirror_.innermost(stack)));
  ASSERT_NE(module, nullptr);
  EXPECT_TRUE(module->path.ends_with("_test"));
}

}  // namespace
}  // namespace gpumemprof::capture
