// Times and positions from a forged file are put in order before anything uses them.
#include "store/settle.h"

#include <gtest/gtest.h>

#include <limits>

namespace gpumemprof {
namespace {

TEST(Settle, positions_are_in_order_and_within_the_events) {
  DeviceRecord record;
  record.events.push_back({});
  record.events.push_back({});
  record.phase_marks = {{0, PhaseMark::Kind::optimizer_end, 0, 4'000'000'000},
                        {0, PhaseMark::Kind::optimizer_start, 0, 1},
                        {0, PhaseMark::Kind::step_start, 7, 1}};
  record.labellings = {{0, 1, 9}, {0, 0, 0}};
  record.lost_events = {{0, kNoEvent, 5}};
  settle_positions(record);
  EXPECT_EQ(record.phase_marks[0].kind, PhaseMark::Kind::optimizer_start);
  EXPECT_EQ(record.phase_marks[1].number, 7U);  // those at the same position keep their order
  EXPECT_EQ(record.phase_marks[2].before_event, 2U);
  EXPECT_EQ(record.labellings[0].set, 0U);
  EXPECT_EQ(record.labellings[1].before_event, 2U);
  EXPECT_EQ(record.lost_events[0].before_event, 2U);
}

TEST(Store, a_time_that_no_clock_gives_is_unknown) {
  Store store;
  EventColumns events;
  Event event;
  for (const std::int64_t time_ns :
       {std::numeric_limits<std::int64_t>::max(), std::int64_t{1'800'000'000'000'000'000},
        std::numeric_limits<std::int64_t>::min() + 1, std::int64_t{-5}}) {
    event.time_ns = time_ns;
    events.push_back(event);
  }
  store.add_events(0, std::move(events));
  const Column<std::int64_t>& times = store.devices()[0]->events.time_ns;
  EXPECT_EQ(times[0], kUnknownTime);
  EXPECT_EQ(times[1], 1'800'000'000'000'000'000);
  EXPECT_EQ(times[2], kUnknownTime);
  EXPECT_EQ(times[3], -5);
}

}  // namespace
}  // namespace gpumemprof
