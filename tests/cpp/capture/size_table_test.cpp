#include "capture/ledger/size_table.h"

#include <gtest/gtest.h>

#include <random>
#include <unordered_map>

namespace gpumemprof::capture {
namespace {

TEST(SizeTable, gives_back_what_was_stored_and_only_once) {
  SizeTable table(64);
  EXPECT_TRUE(table.insert(0x1000, 7));
  std::uint64_t size = 0;
  EXPECT_TRUE(table.take(0x1000, size));
  EXPECT_EQ(size, 7U);
  EXPECT_FALSE(table.take(0x1000, size));
  EXPECT_FALSE(table.take(0, size));
}

TEST(SizeTable, refuses_what_does_not_fit) {
  SizeTable table(16);
  for (std::uint64_t row = 1; row <= 12; ++row) EXPECT_TRUE(table.insert(row * 64, row));
  EXPECT_FALSE(table.insert(std::uint64_t{13} * 64, 13));
  EXPECT_EQ(table.size(), 12U);
  table.clear();
  EXPECT_EQ(table.size(), 0U);
  std::uint64_t size = 0;
  EXPECT_FALSE(table.take(64, size));
}

TEST(SizeTable, that_reserves_with_its_first_row_is_empty_before) {
  SizeTable table(64, SizeTable::Reserve::with_first_row);
  std::uint64_t size = 0;
  EXPECT_FALSE(table.take(64, size));
  table.for_each([](std::uint64_t, std::uint64_t) { FAIL() << "there is no row"; });
  table.clear();
  EXPECT_TRUE(table.insert(64, 7));
  EXPECT_TRUE(table.take(64, size));
  EXPECT_EQ(size, 7U);
}

TEST(SizeTable, agrees_with_a_map_over_random_work) {
  std::mt19937_64 random(1);
  SizeTable table(256);
  std::unordered_map<std::uint64_t, std::uint64_t> truth;
  for (int step = 0; step < 200'000; ++step) {
    const std::uint64_t address = (1 + random() % 400) * 64;
    std::uint64_t size = 0;
    if (truth.contains(address)) {
      ASSERT_TRUE(table.take(address, size));
      ASSERT_EQ(size, truth[address]);
      truth.erase(address);
    } else if (table.insert(address, random() % 1000)) {
      ASSERT_TRUE(table.take(address, size));
      ASSERT_TRUE(table.insert(address, size));
      truth[address] = size;
    } else {
      ASSERT_EQ(truth.size(), 192U);
    }
    ASSERT_EQ(table.size(), truth.size());
  }
}

}  // namespace
}  // namespace gpumemprof::capture
