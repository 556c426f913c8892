#include "capture/stream/ring.h"

#include <gtest/gtest.h>

#include <map>
#include <thread>
#include <vector>

namespace gpumemprof::capture {
namespace {

Record numbered(std::uint16_t thread, std::uint64_t number) {
  Record record;
  record.event.thread = thread;
  record.event.address = number;
  return record;
}

TEST(Ring, gives_back_what_was_pushed_in_order) {
  Ring ring(8);
  for (std::uint64_t lap = 0; lap < 5; ++lap) {
    for (std::uint64_t number = 0; number < 6; ++number)
      ASSERT_TRUE(ring.push(numbered(0, number)));
    Record record;
    for (std::uint64_t number = 0; number < 6; ++number) {
      ASSERT_TRUE(ring.pop(record));
      EXPECT_EQ(record.event.address, number);
    }
    EXPECT_FALSE(ring.pop(record));
  }
}

TEST(Ring, refuses_what_does_not_fit_and_goes_on_afterwards) {
  Ring ring(4);
  for (std::uint64_t number = 0; number < 4; ++number) EXPECT_TRUE(ring.push(numbered(0, number)));
  EXPECT_FALSE(ring.push(numbered(0, 4)));
  Record record;
  ASSERT_TRUE(ring.pop(record));
  EXPECT_EQ(record.event.address, 0U);
  EXPECT_TRUE(ring.push(numbered(0, 5)));
  EXPECT_FALSE(ring.push(numbered(0, 6)));
}

TEST(Ring, keeps_every_producers_order) {
  constexpr std::uint64_t kEach = 50'000;
  constexpr std::uint16_t kProducers = 3;
  Ring ring(256);
  std::vector<std::thread> producers;
  for (std::uint16_t thread = 0; thread < kProducers; ++thread) {
    producers.emplace_back([&ring, thread] {
      for (std::uint64_t number = 0; number < kEach; ++number) {
        while (!ring.push(numbered(thread, number))) std::this_thread::yield();
      }
    });
  }
  std::map<std::uint16_t, std::uint64_t> next;
  Record record;
  while (ring.tail() < kEach * kProducers) {
    if (!ring.pop(record)) {
      std::this_thread::yield();
      continue;
    }
    EXPECT_EQ(record.event.address, next[record.event.thread]++);
  }
  for (std::thread& producer : producers) producer.join();
  EXPECT_EQ(ring.head(), kEach * kProducers);
}

TEST(Ring, nothing_behind_a_place_that_is_not_filled_is_taken_before_it) {
  Ring ring(8);
  const Ring::Place place = ring.claim();
  ASSERT_TRUE(place);
  Record second;
  second.event.address = 2;
  ASSERT_TRUE(ring.push(second));
  Record taken;
  EXPECT_FALSE(ring.pop(taken));
  Ring::record_at(place) = Record();
  Ring::record_at(place).event.address = 1;
  Ring::hand_over(place);
  ASSERT_TRUE(ring.pop(taken));
  EXPECT_EQ(taken.event.address, 1U);
  ASSERT_TRUE(ring.pop(taken));
  EXPECT_EQ(taken.event.address, 2U);
}

TEST(Ring, a_full_ring_has_no_place) {
  Ring ring(2);
  EXPECT_TRUE(ring.claim());
  EXPECT_TRUE(ring.claim());
  EXPECT_FALSE(ring.claim());
}

}  // namespace
}  // namespace gpumemprof::capture
