#include "base/column.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <limits>
#include <numeric>
#include <vector>

namespace gpumemprof {
namespace {

TEST(Column, grows_and_keeps_its_rows) {
  Column<std::uint32_t> column;
  EXPECT_TRUE(column.empty());
  for (std::uint32_t row = 0; row < 100000; ++row) column.push_back(row);
  ASSERT_EQ(column.size(), 100000U);
  for (std::uint32_t row = 0; row < 100000; ++row) ASSERT_EQ(column[row], row);
  EXPECT_EQ(column.back(), 99999U);
}

TEST(Column, fills_only_new_rows_when_resized) {
  Column<int> column;
  column.push_back(1);
  column.resize(4, 7);
  EXPECT_EQ(std::vector<int>(column.begin(), column.end()), (std::vector<int>{1, 7, 7, 7}));
  column.resize(2, 9);
  EXPECT_EQ(column.size(), 2U);
  column.resize(3, 5);
  EXPECT_EQ(std::vector<int>(column.begin(), column.end()), (std::vector<int>{1, 7, 5}));
}

TEST(Column, appends_other_rows) {
  Column<int> column;
  std::vector<int> values(1000);
  std::iota(values.begin(), values.end(), 0);
  column.append(values);
  column.append({});
  column.append(std::vector<int>{-1});
  EXPECT_EQ(column.size(), 1001U);
  EXPECT_EQ(column[999], 999);
  EXPECT_EQ(column.back(), -1);
}

TEST(Column, gives_unused_room_back) {
  Column<std::uint64_t> column;
  column.reserve(1000);
  EXPECT_GE(column.capacity_bytes(), 8000U);
  column.push_back(5);
  column.shrink_to_fit();
  EXPECT_EQ(column.capacity_bytes(), 8U);
  EXPECT_EQ(column[0], 5U);
  column.clear();
  column.shrink_to_fit();
  EXPECT_EQ(column.capacity_bytes(), 0U);
  column.push_back(6);
  EXPECT_EQ(column.back(), 6U);
}

TEST(Column, moves_without_copying) {
  Column<int> column;
  column.push_back(3);
  const int* data = column.data();
  Column<int> taken = std::move(column);
  EXPECT_EQ(taken.data(), data);
  Column<int> assigned;
  assigned.push_back(1);
  assigned = std::move(taken);
  EXPECT_EQ(assigned.data(), data);
  EXPECT_EQ(assigned.size(), 1U);
}

TEST(Column, says_so_when_memory_runs_out) {
  Column<std::uint64_t> column;
  column.push_back(1);
  EXPECT_THROW(column.reserve(std::numeric_limits<std::size_t>::max() / 16), std::bad_alloc);
  EXPECT_EQ(column[0], 1U);
}

}  // namespace
}  // namespace gpumemprof
