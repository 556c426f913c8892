#include "capture/stream/drain.h"

#include <gtest/gtest.h>

#include <atomic>

namespace gpumemprof::capture {
namespace {

TEST(Drain, ACommandRunsAfterWhatCameBeforeItAndBeforeWhatComesAfter) {
  constexpr int kRecords = 1'000'000;
  constexpr int kEvery = 5'000;  // rarely, so that the drain is mostly busy with records
  Ring ring(1U << 12);
  ThreadSlots slots;
  Emitter emitter(ring, slots);
  std::atomic<int> run{0};
  std::atomic<int> misplaced{0};
  {
    Drain drain(ring, emitter);
    ASSERT_TRUE(drain.start_thread());
    for (int index = 0; index < kRecords; ++index) {
      Record record;
      record.event.device = kCpuSlot;
      while (!ring.push(record)) {
      }
      if (index % kEvery != 0) continue;
      drain.submit([&, position = ring.head()](Drain&) {
        ++run;
        // Only this thread pushes, so the position of the command is known exactly.
        if (ring.tail() != position) ++misplaced;
      });
    }
  }
  EXPECT_EQ(run, kRecords / kEvery);
  EXPECT_EQ(misplaced, 0);
}

}  // namespace
}  // namespace gpumemprof::capture
