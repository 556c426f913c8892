#include "event/memory_source.h"

#include <gtest/gtest.h>

#include <set>

namespace gpumemprof {
namespace {

TEST(MemorySourceTable, every_value_has_one_row_with_a_name_of_its_own) {
  std::set<std::string_view> names;
  for (std::size_t value = 0; value < kMemorySourceCount; ++value) {
    const MemorySourceInfo& info = memory_source_info(static_cast<MemorySource>(value));
    EXPECT_EQ(static_cast<std::size_t>(info.source), value);
    EXPECT_FALSE(info.display_name.empty());
    names.insert(info.name);
  }
  EXPECT_EQ(names.size(), kMemorySourceCount);
}

TEST(MemorySourceTable, unknown_is_shown_last_and_is_never_more_than_a_guess) {
  EXPECT_EQ(kMemorySources.back(), MemorySource::unknown);
  EXPECT_EQ(kMemorySourceTable.back().evidence, SourceEvidence::weak);
}

// Readers of the JSON rely on these keys.
TEST(MemorySourceTable, the_first_nine_are_listed_even_if_they_hold_nothing) {
  for (std::size_t value = 0; value < kMemorySourceCount; ++value) {
    const MemorySourceInfo& info = memory_source_info(static_cast<MemorySource>(value));
    EXPECT_EQ(info.is_listed(0), value <= static_cast<std::size_t>(MemorySource::kv_cache))
        << info.name;
    EXPECT_TRUE(info.is_listed(1));
  }
}

}  // namespace
}  // namespace gpumemprof
