#include "event/rules/split_rule.h"

#include <gtest/gtest.h>

namespace gpumemprof {
namespace {

constexpr SegmentMode kPlain = SegmentMode::plain;
constexpr SegmentMode kExpandable = SegmentMode::expandable;

TEST(SplitRule, small_requests_leave_any_rest_that_is_a_block) {
  const AllocatorSettings settings;
  for (const SegmentMode mode : {kPlain, kExpandable}) {
    EXPECT_TRUE(splits_block(settings, mode, kMiB, kMiB + 512));
    EXPECT_FALSE(splits_block(settings, mode, kMiB, kMiB));
  }
}

TEST(SplitRule, large_requests_leave_only_what_is_larger_than_the_small_pool_serves) {
  const AllocatorSettings settings;
  EXPECT_FALSE(splits_block(settings, kPlain, 2 * kMiB, 3 * kMiB));
  EXPECT_TRUE(splits_block(settings, kPlain, 2 * kMiB, 3 * kMiB + 512));
}

TEST(SplitRule, with_expandable_segments_large_requests_are_split_as_finely_as_small_ones) {
  AllocatorSettings settings;
  settings.max_split_bytes = 20 * kMiB;
  EXPECT_TRUE(splits_block(settings, kExpandable, 2 * kMiB, 2 * kMiB + 512));
  EXPECT_TRUE(splits_block(settings, kExpandable, 64 * kMiB, 128 * kMiB));
}

TEST(SplitRule, requests_of_the_split_limit_and_above_take_the_whole_block) {
  AllocatorSettings settings;
  settings.max_split_bytes = 64 * kMiB;
  EXPECT_TRUE(splits_block(settings, kPlain, 64 * kMiB - 512, 128 * kMiB));
  EXPECT_FALSE(splits_block(settings, kPlain, 64 * kMiB, 128 * kMiB));
}

}  // namespace
}  // namespace gpumemprof
