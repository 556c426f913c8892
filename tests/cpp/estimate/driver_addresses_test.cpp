#include "estimate/driver_addresses.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <random>
#include <utility>
#include <vector>

#include "base/bytes.h"

namespace gpumemprof::estimate {
namespace {

// Takes what the driver's own chunks have left at first.
void fill_first_chunks(DriverAddresses& addresses) {
  addresses.place_segment(24 * kMiB);
  addresses.place_segment(2 * kMiB);
  addresses.on_kernel();
  addresses.place_segment(414 * kMiB);
}

// As recorded: 148 MiB at 0x7f6896000000, 20 MiB far above, 2 MiB at 0x7f689f400000.
TEST(DriverAddresses, what_the_driver_has_left_of_its_own_chunk_is_used) {
  DriverAddresses addresses;
  const std::uint64_t large = addresses.place_segment(148 * kMiB);
  EXPECT_GT(addresses.place_segment(20 * kMiB), large + 160 * kMiB);
  EXPECT_EQ(addresses.place_segment(2 * kMiB), large + 148 * kMiB);
  EXPECT_EQ(addresses.place_segment(20 * kMiB), large - 32 * kMiB);
}

// As recorded of a network of convolutions: 2 MiB at 0x7fc9afe00000, 98 MiB far below; after the
// first kernel 26 and 50 MiB at 0x7fc996000000 and 0x7fc997a00000.
TEST(DriverAddresses, the_memory_of_threads_serves_segments_if_one_lies_behind_it) {
  DriverAddresses addresses;
  const std::uint64_t behind = addresses.place_segment(2 * kMiB);
  const std::uint64_t start = behind - 414 * kMiB;
  EXPECT_LT(addresses.place_segment(128 * kMiB), start);
  addresses.on_kernel();
  EXPECT_EQ(addresses.place_segment(26 * kMiB), start);
  addresses.on_kernel();
  EXPECT_EQ(addresses.place_segment(50 * kMiB), start + 26 * kMiB);
  EXPECT_LT(addresses.place_segment(352 * kMiB), start);
}

// As recorded of a language model, whose first segment is large: chunks fill the place from above.
TEST(DriverAddresses, the_memory_of_threads_goes_back_if_nothing_lies_behind_it) {
  DriverAddresses addresses;
  const std::uint64_t large = addresses.place_segment(160 * kMiB);
  const std::uint64_t beside = addresses.place_segment(24 * kMiB);
  addresses.on_kernel();
  EXPECT_EQ(addresses.place_segment(32 * kMiB), beside - (8 + 64 + 32) * kMiB);
  EXPECT_EQ(addresses.place_segment(32 * kMiB), beside - (8 + 64 + 64) * kMiB);
  EXPECT_LT(addresses.place_segment(256 * kMiB), large);
}

// As recorded: 0x7fc982000000 20 MiB, 0x7fc983400000 2 MiB, 0x7fc983600000 2 MiB, 0x7fc980000000 20
// MiB.
TEST(DriverAddresses, small_segments_fill_what_the_last_chunk_has_left) {
  DriverAddresses addresses;
  fill_first_chunks(addresses);
  const std::uint64_t chunk = addresses.place_segment(20 * kMiB);
  EXPECT_EQ(addresses.place_segment(2 * kMiB), chunk + 20 * kMiB);
  EXPECT_EQ(addresses.place_segment(2 * kMiB), chunk + 22 * kMiB);
  EXPECT_EQ(addresses.place_segment(20 * kMiB), chunk - 32 * kMiB);
}

// As recorded: 98, 98 and 26 MiB at 0x7fc928000000, 0x7fc920000000 and 0x7fc926200000; 98 and 98 at
// 0x7fc918000000 and 0x7fc910000000; then three of 26 MiB at 0x7fc916200000, 0x7fc91e200000 and
// 0x7fc92e200000.
TEST(DriverAddresses, the_chunk_that_was_made_last_is_asked_first) {
  DriverAddresses addresses;
  fill_first_chunks(addresses);
  const std::uint64_t first = addresses.place_segment(98 * kMiB);
  EXPECT_EQ(addresses.place_segment(98 * kMiB), first - 128 * kMiB);
  EXPECT_EQ(addresses.place_segment(26 * kMiB), first - 30 * kMiB);
  EXPECT_EQ(addresses.place_segment(98 * kMiB), first - 256 * kMiB);
  EXPECT_EQ(addresses.place_segment(98 * kMiB), first - 384 * kMiB);
  EXPECT_EQ(addresses.place_segment(26 * kMiB), first - 286 * kMiB);
  EXPECT_EQ(addresses.place_segment(26 * kMiB), first - 158 * kMiB);
  EXPECT_EQ(addresses.place_segment(26 * kMiB), first + 98 * kMiB);
}

TEST(DriverAddresses, what_is_returned_in_a_chunk_is_used_again) {
  DriverAddresses addresses;
  fill_first_chunks(addresses);
  const std::uint64_t chunk = addresses.place_segment(20 * kMiB);
  const std::uint64_t rest = addresses.place_segment(12 * kMiB);
  addresses.return_segment(chunk);
  EXPECT_EQ(addresses.place_segment(16 * kMiB), chunk);
  EXPECT_EQ(addresses.place_segment(4 * kMiB), chunk + 16 * kMiB);
  addresses.return_segment(rest);
  EXPECT_EQ(addresses.place_segment(2 * kMiB), rest);
}

// As recorded: a gap of 128 MiB does not serve a chunk of 128 MiB, one of 256 MiB serves one.
TEST(DriverAddresses, a_gap_between_chunks_must_be_larger_than_the_chunk) {
  DriverAddresses addresses;
  fill_first_chunks(addresses);
  const std::uint64_t first = addresses.place_segment(102 * kMiB);
  const std::uint64_t second = addresses.place_segment(102 * kMiB);
  const std::uint64_t third = addresses.place_segment(102 * kMiB);
  addresses.return_segment(first);
  const std::uint64_t fourth = addresses.place_segment(100 * kMiB);
  EXPECT_EQ(fourth, third - 128 * kMiB);
  addresses.return_segment(second);
  EXPECT_EQ(addresses.place_segment(100 * kMiB), first);
  EXPECT_EQ(addresses.place_segment(100 * kMiB), fourth - 128 * kMiB);
}

TEST(DriverAddresses, the_lowest_chunk_leaves_no_gap) {
  DriverAddresses addresses;
  fill_first_chunks(addresses);
  const std::uint64_t lowest = addresses.place_segment(64 * kMiB);
  addresses.return_segment(lowest);
  EXPECT_EQ(addresses.place_segment(32 * kMiB), lowest + 32 * kMiB);
}

TEST(DriverAddresses, what_was_never_placed_cannot_be_returned) {
  DriverAddresses addresses;
  const std::uint64_t first = addresses.place_segment(20 * kMiB);
  addresses.return_segment(first + 2 * kMiB);
  EXPECT_EQ(addresses.place_segment(4 * kMiB), first + 20 * kMiB);
}

TEST(DriverAddresses, no_two_segments_overlap) {
  DriverAddresses addresses;
  std::mt19937 random(7);
  struct Placed {
    std::uint64_t start, size;
    bool is_range;
  };
  std::vector<Placed> placed;
  for (int round = 0; round < 2000; ++round) {
    if (!placed.empty() && random() % 3 == 0) {
      std::swap(placed[random() % placed.size()], placed.back());
      if (placed.back().is_range) continue;
      addresses.return_segment(placed.back().start);
      placed.pop_back();
      continue;
    }
    const std::uint64_t size = (1 + random() % 60) * 2 * kMiB;
    const bool is_range = random() % 40 == 0;
    const std::uint64_t start =
        is_range ? addresses.place_range(size) : addresses.place_segment(size);
    for (const Placed& other : placed)
      EXPECT_TRUE(start + size <= other.start || other.start + other.size <= start);
    placed.push_back({start, size, is_range});
    if (round == 50) addresses.on_kernel();
  }
}

}  // namespace
}  // namespace gpumemprof::estimate
