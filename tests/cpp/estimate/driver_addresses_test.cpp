#include "estimate/driver_addresses.h"

#include <gtest/gtest.h>

#include <random>
#include <vector>

#include "base/bytes.h"

namespace gpumemprof::estimate {
namespace {

TEST(DriverAddresses, a_small_segment_fills_the_rest_of_a_range) {
  DriverAddresses addresses;
  const std::uint64_t first = addresses.place_segment(20 * kMiB);
  EXPECT_EQ(first % (32 * kMiB), 0U);
  EXPECT_EQ(addresses.place_segment(2 * kMiB), first + 20 * kMiB);
  EXPECT_EQ(addresses.place_segment(10 * kMiB), first + 22 * kMiB);
  // Nothing is left of it.
  EXPECT_EQ(addresses.place_segment(2 * kMiB), first - 32 * kMiB);
}

TEST(DriverAddresses, takes_the_smallest_rest_that_has_room) {
  DriverAddresses addresses;
  const std::uint64_t roomy = addresses.place_segment(4 * kMiB);
  const std::uint64_t tight = addresses.place_segment(30 * kMiB);
  EXPECT_LT(tight, roomy);
  EXPECT_EQ(addresses.place_segment(2 * kMiB), tight + 30 * kMiB);
  EXPECT_EQ(addresses.place_segment(2 * kMiB), roomy + 4 * kMiB);
}

TEST(DriverAddresses, no_two_segments_overlap) {
  DriverAddresses addresses;
  std::mt19937 random(7);
  std::vector<std::pair<std::uint64_t, std::uint64_t>> placed;
  for (int round = 0; round < 500; ++round) {
    const std::uint64_t size = (1 + random() % 40) * 2 * kMiB;
    const bool is_range = random() % 10 == 0;
    const std::uint64_t start =
        is_range ? addresses.place_range(size) : addresses.place_segment(size);
    for (const auto& [other, other_size] : placed)
      EXPECT_TRUE(start + size <= other || other + other_size <= start);
    placed.emplace_back(start, size);
  }
}

}  // namespace
}  // namespace gpumemprof::estimate
