#include "estimate/driver_addresses.h"

#include <gtest/gtest.h>

#include <random>
#include <vector>

#include "base/bytes.h"

namespace gpumemprof::estimate {
namespace {

TEST(DriverAddresses, each_segment_lies_below_all_earlier_ones) {
  DriverAddresses addresses;
  const std::uint64_t first = addresses.place_segment(20 * kMiB);
  EXPECT_EQ(addresses.place_segment(2 * kMiB), first - 2 * kMiB);
  EXPECT_EQ(addresses.place_segment(3 * kMiB), first - 6 * kMiB);
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
