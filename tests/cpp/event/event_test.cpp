#include "event/event.h"

#include <gtest/gtest.h>

#include "base/error.h"

namespace gpumemprof {
namespace {

Event plain(std::uint64_t address) {
  Event event;
  event.action = Action::alloc;
  event.address = address;
  event.size_bytes = 512;
  return event;
}

Event labelled(std::uint64_t address) {
  Event event = plain(address);
  event.compile_context = StringId(3);
  event.user_metadata = StringId(4);
  event.pool = 2;
  return event;
}

TEST(Action, has_a_name_that_leads_back_to_it) {
  for (std::size_t index = 0; index < kActionCount; ++index) {
    const auto action = static_cast<Action>(index);
    EXPECT_EQ(action_from_name(action_name(action)), action);
  }
  EXPECT_EQ(action_name(Action::free_completed), "free_completed");
  EXPECT_EQ(action_from_name("user_defined"), Action::other);
  EXPECT_EQ(action_from_name(""), Action::other);
}

TEST(EventColumns, keep_optional_columns_empty_until_one_is_needed) {
  EventColumns events;
  events.push_back(plain(1));
  events.push_back(plain(2));
  EXPECT_TRUE(events.compile_context.empty());
  EXPECT_TRUE(events.user_metadata.empty());
  EXPECT_TRUE(events.pool.empty());
  events.push_back(labelled(3));
  events.push_back(plain(4));
  ASSERT_EQ(events.pool.size(), 4U);
  EXPECT_EQ(events.row(0).pool, kNoPool);
  EXPECT_TRUE(events.row(1).user_metadata.is_none());
  EXPECT_EQ(events.row(2).compile_context, StringId(3));
  EXPECT_EQ(events.row(2).user_metadata, StringId(4));
  EXPECT_EQ(events.row(2).pool, 2U);
  EXPECT_EQ(events.row(3).pool, kNoPool);
}

TEST(EventColumns, append_any_mix_of_optional_columns) {
  for (const bool first_has : {false, true}) {
    for (const bool second_has : {false, true}) {
      EventColumns first;
      first.push_back(first_has ? labelled(1) : plain(1));
      EventColumns second;
      second.push_back(plain(2));
      second.push_back(second_has ? labelled(3) : plain(3));
      second.push_back(plain(4));
      first.append(second, 1, 2);
      ASSERT_EQ(first.size(), 3U);
      EXPECT_EQ(first.row(0).pool, first_has ? 2U : kNoPool);
      EXPECT_EQ(first.row(1).address, 3U);
      EXPECT_EQ(first.row(1).pool, second_has ? 2U : kNoPool);
      EXPECT_EQ(first.row(1).user_metadata, second_has ? StringId(4) : StringId());
      EXPECT_EQ(first.row(2).address, 4U);
      EXPECT_EQ(first.row(2).pool, kNoPool);
      first.append(second, 0, 0);
      EXPECT_EQ(first.size(), 3U);
    }
  }
}

TEST(EventColumns, check_the_row_that_is_asked_for) {
  EventColumns events;
  EXPECT_THROW((void)events.row(0), InternalError);
  events.push_back(plain(1));
  EXPECT_EQ(events.row(0).address, 1U);
  EXPECT_THROW((void)events.row(1), InternalError);
}

TEST(EventColumns, keep_their_rows_when_unused_room_is_given_back) {
  EventColumns events;
  for (std::uint64_t row = 0; row < 100; ++row)
    events.push_back(row % 7 == 0 ? labelled(row) : plain(row));
  events.shrink_to_fit();
  for (std::uint64_t row = 0; row < 100; ++row) {
    EXPECT_EQ(events.row(row).address, row);
    EXPECT_EQ(events.row(row).pool, row % 7 == 0 ? 2U : kNoPool);
  }
}

}  // namespace
}  // namespace gpumemprof
