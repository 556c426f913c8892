#include "sim/allocator/free_set.h"

#include <gtest/gtest.h>

#include <random>
#include <set>
#include <utility>
#include <vector>

namespace gpumemprof::sim {
namespace {

using Key = std::pair<std::uint32_t, std::uint64_t>;

std::vector<Key> keys_of(const FreeSet& set) {
  std::vector<Key> keys;
  set.for_each([&](const FreeEntry& entry) { keys.emplace_back(entry.size_units, entry.tie); });
  return keys;
}

TEST(FreeSetTest, finds_the_smallest_entry_that_is_large_enough) {
  FreeSet set;
  set.insert({100, 8, 1});
  set.insert({50, 4, 2});
  set.insert({40, 8, 3});
  EXPECT_EQ(set.at(set.find_fit(3)).block, 2U);
  EXPECT_EQ(set.at(set.find_fit(5)).block, 3U);  // equal sizes: the lower tie
  EXPECT_EQ(set.find_fit(9), set.end());
}

TEST(FreeSetTest, an_empty_set_finds_nothing) {
  const FreeSet set;
  EXPECT_EQ(set.find_fit(1), set.end());
  EXPECT_EQ(set.find({1, 1, 1}), set.end());
  EXPECT_EQ(set.begin(), set.end());
}

TEST(FreeSetTest, steps_backwards_over_chunks) {
  FreeSet set;
  for (std::uint32_t n = 0; n < 1000; ++n) set.insert({n, n, n});
  std::uint32_t expected = 1000;
  for (auto position = set.end(); position != set.begin();) {
    position = set.previous(position);
    EXPECT_EQ(set.at(position).block, --expected);
  }
  EXPECT_EQ(expected, 0U);
}

class RandomFreeSetTest : public testing::TestWithParam<std::uint32_t> {};

TEST_P(RandomFreeSetTest, agrees_with_a_tree) {
  std::mt19937 chance(GetParam());
  FreeSet set;
  std::set<Key> tree;
  const auto draw = [&](std::uint32_t below) {
    return static_cast<std::uint32_t>(chance() % below);
  };
  const auto random_entry = [&]() {
    const std::uint64_t tie = chance();
    return FreeEntry{tie, draw(GetParam() * 10) + 1, static_cast<std::uint32_t>(tie)};
  };
  for (int step = 0; step < 20'000; ++step) {
    const bool grows = step % 4000 < 2500;
    if (tree.empty() || draw(10) < (grows ? 6U : 3U)) {
      const FreeEntry entry = random_entry();
      if (tree.emplace(entry.size_units, entry.tie).second) set.insert(entry);
    } else {
      const std::uint32_t wanted = draw(GetParam() * 10) + 1;
      const auto expected = tree.lower_bound({wanted, 0});
      const auto position = set.find_fit(wanted);
      ASSERT_EQ(position == set.end(), expected == tree.end());
      if (expected == tree.end()) continue;
      const FreeEntry found = set.at(position);
      ASSERT_EQ(Key(found.size_units, found.tie), *expected);
      ASSERT_EQ(set.find(found), position);
      tree.erase(expected);
      FreeEntry other = random_entry();
      if (draw(2) == 0 && tree.emplace(other.size_units, other.tie).second) {
        set.replace(position, other);
      } else {
        set.erase(position);
      }
    }
    if (step % 64 == 0) {
      ASSERT_TRUE(set.is_valid());
    }
    ASSERT_EQ(set.size(), tree.size());
  }
  EXPECT_EQ(keys_of(set), std::vector<Key>(tree.begin(), tree.end()));
}

// Few distinct sizes make many ties; many make few.
INSTANTIATE_TEST_SUITE_P(Sizes, RandomFreeSetTest, testing::Values(1, 3, 40, 5000));

}  // namespace
}  // namespace gpumemprof::sim
