// Whether a line's memory grows, from its floors step by step.
#include "follow/live_sites.h"

#include <gtest/gtest.h>

namespace gpumemprof {
namespace {

class LiveSitesTest : public testing::Test {
 protected:
  // One step in which the line keeps so much more.
  void step(std::uint64_t kept_bytes) {
    if (kept_bytes > 0) {
      sites_.add(site_, kept_bytes);
      sites_.settle(site_, static_cast<std::int64_t>(kept_bytes));
    }
    sites_.end_step();
  }
  [[nodiscard]] std::optional<double> growth() const {
    return sites_.describe(site_).growth_bytes_per_step;
  }

  Store store_;
  LiveSites sites_{store_};
  std::uint32_t site_ = sites_.site_of({});
};

TEST_F(LiveSitesTest, a_line_that_keeps_something_in_every_step_grows) {
  for (int count = 0; count < 20; ++count) step(4096);
  ASSERT_TRUE(growth());
  EXPECT_DOUBLE_EQ(*growth(), 4096);
}

TEST_F(LiveSitesTest, what_is_made_once_is_no_growth) {
  step(64);
  step(100 << 20);  // an optimizer's state
  for (int count = 0; count < 20; ++count) step(64);
  ASSERT_TRUE(growth());
  EXPECT_DOUBLE_EQ(*growth(), 64);
}

TEST_F(LiveSitesTest, a_jump_with_hardly_anything_after_it_is_no_growth) {
  step(64);
  step(64);
  for (int count = 0; count < 10; ++count) step(0);
  step(100 << 20);
  step(64);
  EXPECT_FALSE(growth());
}

TEST_F(LiveSitesTest, a_slow_leak_grows_by_its_average) {
  for (int count = 0; count < 40; ++count) step(count % 5 == 0 ? 1 << 20 : 0);
  ASSERT_TRUE(growth());
  EXPECT_NEAR(*growth(), (1 << 20) / 5.0, 20000);
}

}  // namespace
}  // namespace gpumemprof
