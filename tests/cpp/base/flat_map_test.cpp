#include "base/flat_map.h"

#include <gtest/gtest.h>

#include <random>
#include <unordered_map>

namespace gpumemprof {
namespace {

TEST(FlatMap, finds_what_was_put_in) {
  FlatMap<int> map;
  EXPECT_EQ(map.find(7), nullptr);
  EXPECT_EQ(map.find_or_insert(7, 1), 1);
  EXPECT_EQ(map.find_or_insert(7, 2), 1);
  map.insert_or_assign(7, 3);
  ASSERT_NE(map.find(7), nullptr);
  EXPECT_EQ(*map.find(7), 3);
  EXPECT_EQ(map.size(), 1U);
}

TEST(FlatMap, never_finds_the_key_that_marks_an_empty_place) {
  FlatMap<int> map;
  EXPECT_EQ(map.find(FlatMap<int>::kEmpty), nullptr);
  EXPECT_FALSE(map.erase(FlatMap<int>::kEmpty));
  for (std::uint64_t key = 0; key < 100; ++key) map.insert_or_assign(key, 1);
  EXPECT_EQ(map.find(FlatMap<int>::kEmpty), nullptr);
}

TEST(FlatMap, forgets_everything_when_cleared) {
  FlatMap<int> map;
  for (std::uint64_t key = 0; key < 100; ++key) map.insert_or_assign(key << 9, 1);
  map.clear();
  EXPECT_EQ(map.size(), 0U);
  EXPECT_EQ(map.find(512), nullptr);
  map.insert_or_assign(512, 5);
  EXPECT_EQ(*map.find(512), 5);
}

// Addresses are added, removed and added again; deletion closes gaps without losing later entries.
TEST(FlatMap, equals_a_hash_map_under_random_use) {
  std::mt19937_64 random(3);
  FlatMap<std::uint64_t> map;
  std::unordered_map<std::uint64_t, std::uint64_t> model;
  for (int round = 0; round < 200000; ++round) {
    const std::uint64_t key = (random() % 3000) << (random() % 2 == 0 ? 9 : 54);
    if (random() % 3 == 0) {
      EXPECT_EQ(map.erase(key), model.erase(key) == 1);
    } else {
      map.insert_or_assign(key, random());
      model[key] = *map.find(key);
    }
    const std::uint64_t other = (random() % 3000) << 9;
    const auto known = model.find(other);
    const std::uint64_t* found = map.find(other);
    ASSERT_EQ(found != nullptr, known != model.end());
    if (found != nullptr) {
      ASSERT_EQ(*found, known->second);
    }
  }
  ASSERT_EQ(map.size(), model.size());
  std::size_t visited = 0;
  map.for_each([&](std::uint64_t key, std::uint64_t value) {
    EXPECT_EQ(model.at(key), value);
    ++visited;
  });
  EXPECT_EQ(visited, model.size());
}

}  // namespace
}  // namespace gpumemprof
