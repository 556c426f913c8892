// Looks that the caller neither makes nor waits for.
#include "follow/background_look.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <mutex>
#include <stdexcept>

namespace gpumemprof {
namespace {

constexpr KeptSitesWanted kWanted{8, 8, false};
constexpr std::chrono::seconds kLong{60};

TEST(BackgroundLook, has_a_result_once_and_only_after_a_start) {
  int asked = 0;
  BackgroundLook look("/nonexistent/run.gmp", [&] { ++asked; });
  EXPECT_FALSE(look.take(std::chrono::milliseconds(0)));
  ASSERT_TRUE(look.start(kWanted));
  const auto found = look.take(kLong);
  ASSERT_TRUE(found);  // nothing can be read
  EXPECT_TRUE(found->empty());
  EXPECT_EQ(asked, 1);
  EXPECT_FALSE(look.take(std::chrono::milliseconds(0)));
}

TEST(BackgroundLook, leaves_its_caller_alone_while_the_recorder_writes) {
  std::mutex lock;
  std::condition_variable changed;
  bool may_write = false;
  BackgroundLook look("/nonexistent/run.gmp", [&] {
    std::unique_lock held(lock);
    changed.wait(held, [&] { return may_write; });
  });
  ASSERT_TRUE(look.start(kWanted));
  EXPECT_FALSE(look.start(kWanted));  // one at a time
  EXPECT_FALSE(look.take(std::chrono::milliseconds(0)));
  {
    const std::scoped_lock held(lock);
    may_write = true;
  }
  changed.notify_all();
  EXPECT_TRUE(look.take(kLong));
}

TEST(BackgroundLook, at_once_waits_for_one_that_is_going_on) {
  std::atomic<int> asked = 0;
  BackgroundLook look("/nonexistent/run.gmp", [&] { ++asked; });
  ASSERT_TRUE(look.start(kWanted));
  EXPECT_TRUE(look.look_now(kWanted).empty());
  EXPECT_EQ(asked, 2);
  EXPECT_FALSE(look.take(std::chrono::milliseconds(0)));
}

TEST(BackgroundLook, that_is_abandoned_does_nothing_more) {
  int asked = 0;
  BackgroundLook look("/nonexistent/run.gmp", [&] { ++asked; });
  look.abandon();
  EXPECT_FALSE(look.start(kWanted));
  EXPECT_TRUE(look.look_now(kWanted).empty());
  EXPECT_EQ(asked, 0);
}

TEST(BackgroundLook, survives_a_recorder_that_fails) {
  BackgroundLook look("/nonexistent/run.gmp", [] { throw std::runtime_error("broken"); });
  ASSERT_TRUE(look.start(kWanted));
  EXPECT_TRUE(look.take(kLong));
}

}  // namespace
}  // namespace gpumemprof
