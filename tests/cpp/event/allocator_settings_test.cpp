#include "event/allocator_settings.h"

#include <gtest/gtest.h>

#include <cmath>

namespace gpumemprof {
namespace {

AllocatorSettings with_divisions(std::uint64_t divisions) {
  AllocatorSettings settings;
  settings.roundup_divisions.fill(divisions);
  settings.settle();
  return settings;
}

TEST(RoundSize, goes_up_to_the_next_512_bytes) {
  const AllocatorSettings settings;
  EXPECT_EQ(settings.round_size(1), 512U);
  EXPECT_EQ(settings.round_size(511), 512U);
  EXPECT_EQ(settings.round_size(512), 512U);
  EXPECT_EQ(settings.round_size(513), 1024U);
  EXPECT_EQ(settings.round_size(kMiB), kMiB);
  EXPECT_EQ(settings.round_size(kMiB + 1), kMiB + 512);
  EXPECT_EQ(settings.round_size(150 * kGiB + 1), 150 * kGiB + 512);
}

TEST(RoundSize, goes_up_to_a_division_of_a_power_of_two) {
  const AllocatorSettings quarters = with_divisions(4);
  EXPECT_EQ(quarters.round_size(1200 * kKiB),
            1280 * kKiB);  // PyTorch's own example: 1024, 1280, 1536, 1792
  EXPECT_EQ(quarters.round_size(1280 * kKiB), 1280 * kKiB);
  EXPECT_EQ(quarters.round_size(1280 * kKiB + 1), 1536 * kKiB);
  EXPECT_EQ(quarters.round_size(2047 * kKiB), 2 * kMiB);
  EXPECT_EQ(quarters.round_size(4 * kMiB), 4 * kMiB);
}

TEST(RoundSize, keeps_small_requests_at_512_bytes) {
  const AllocatorSettings quarters = with_divisions(4);
  EXPECT_EQ(quarters.round_size(100), 512U);
  EXPECT_EQ(quarters.round_size(4 * kMinBlockBytes), 2048U);
  EXPECT_EQ(quarters.round_size(4 * kMinBlockBytes + 1), 2560U);
  EXPECT_EQ(quarters.round_size(1025), 1536U);
}

TEST(RoundSize, uses_the_divisions_of_the_power_of_two_below) {
  AllocatorSettings settings;
  settings.roundup_divisions[0] = 2;   // up to 2 MiB, and everything smaller
  settings.roundup_divisions[3] = 8;   // 8 to 16 MiB
  settings.roundup_divisions[15] = 2;  // 32 GiB and everything larger
  settings.settle();
  EXPECT_EQ(settings.round_size(kMiB + 1), 1536 * kKiB);
  EXPECT_EQ(settings.round_size(100 * kKiB), 128 * kKiB);
  EXPECT_EQ(settings.round_size(3 * kMiB + 1), 3 * kMiB + 512);
  EXPECT_EQ(settings.round_size(8 * kMiB + 1), 9 * kMiB);
  EXPECT_EQ(settings.round_size(33 * kGiB), 48 * kGiB);
  EXPECT_EQ(settings.round_size(65 * kGiB), 96 * kGiB);
}

TEST(RoundSize, takes_0_and_1_divisions_as_none) {
  EXPECT_EQ(with_divisions(0).round_size(kMiB + 1), kMiB + 512);
  EXPECT_EQ(with_divisions(1).round_size(kMiB + 1), kMiB + 512);
}

// A corrupt file may contain anything; the result must be no smaller than the input, or nothing.
TEST(RoundSize, never_makes_a_block_smaller_than_the_request) {
  for (const std::uint64_t divisions : {0ULL, 3ULL, 7ULL, 4ULL, 1ULL << 40, 1ULL << 63, ~0ULL}) {
    const AllocatorSettings settings = with_divisions(divisions);
    for (int bit = 0; bit < 64; ++bit) {
      for (const std::uint64_t more : {0ULL, 1ULL, 511ULL}) {
        const std::uint64_t requested = (std::uint64_t{1} << bit) + more;
        const std::uint64_t rounded = settings.round_size(requested);
        EXPECT_TRUE(rounded >= requested || rounded == 0)
            << requested << " in " << divisions << " gives " << rounded;
      }
    }
    const std::uint64_t rounded = settings.round_size(~std::uint64_t{0});
    EXPECT_TRUE(rounded == 0 || rounded == ~std::uint64_t{0}) << divisions;
  }
}

TEST(AllocatorSettings, compare_by_what_they_say) {
  AllocatorSettings one;
  AllocatorSettings other;
  EXPECT_EQ(one, other);
  other.max_split_bytes = 64 * kMiB;
  EXPECT_NE(one, other);
}

TEST(AllocatorSettings, what_torch_does_not_accept_becomes_the_default) {
  for (const std::uint64_t bytes : {std::uint64_t{0}, kMiB, std::uint64_t{1} << 50}) {
    AllocatorSettings settings;
    settings.large_segment_bytes = bytes;
    settings.settle();
    EXPECT_EQ(settings.large_segment_bytes, 20 * kMiB);
  }
  for (const double share : {-0.5, 1.0, 1e300, std::nan("")}) {
    AllocatorSettings settings;
    settings.garbage_collection_threshold = share;
    settings.settle();
    EXPECT_EQ(settings.garbage_collection_threshold, 0);
  }
  AllocatorSettings settings;
  settings.large_segment_bytes = 64 * kMiB;
  settings.garbage_collection_threshold = 0.8;
  settings.settle();
  EXPECT_EQ(settings.large_segment_bytes, 64 * kMiB);
  EXPECT_EQ(settings.garbage_collection_threshold, 0.8);
}

}  // namespace
}  // namespace gpumemprof
