// What happens between two moments, and which allocations a picture shows by themselves: compared
// with a scan of the whole history.
#include <gtest/gtest.h>

#include <algorithm>

#include "analysis/random_history.h"
#include "analysis/range/range_changes.h"
#include "analysis/range/singles.h"

namespace gpumemprof {
namespace {

class RangeOfRandomHistory : public ::testing::TestWithParam<unsigned> {
 protected:
  [[nodiscard]] Position birth(std::size_t row) const {
    return birth_position(rows_.alloc_event[row]);
  }
  [[nodiscard]] Position death(std::size_t row) const {
    const std::uint32_t freed = rows_.free_requested_event[row];
    return freed == kNoEvent ? ~Position{0} : position_after(freed);
  }
  [[nodiscard]] bool was_pending(std::size_t row) const { return rows_.was_pending_at_start(row); }
  [[nodiscard]] std::uint64_t live_bytes(Position position) const {
    std::uint64_t bytes = 0;
    for (std::size_t row = 0; row < rows_.size(); ++row)
      bytes += rows_.is_allocated_at(row, moment_of(position)) ? rows_.size_bytes[row] : 0;
    return bytes;
  }

  RandomHistory history_{GetParam(), 400};
  const DeviceRecord& record_ = *history_.record;
  const AllocationColumns& rows_ = record_.allocations;
  LiveRows live_{record_};
};

TEST_P(RangeOfRandomHistory, changes_equal_a_scan) {
  constexpr std::pair<Position, Position> kRanges[] = {{0, 400}, {0, 0}, {57, 58}, {100, 311}};
  for (const auto& [from, to] : kRanges) {
    RangeFigures expected;
    for (std::size_t row = 0; row < rows_.size(); ++row) {
      const std::uint64_t bytes = rows_.size_bytes[row];
      const bool is_made = birth(row) > from && birth(row) <= to;
      const bool is_live = rows_.is_allocated_at(row, moment_of(from));
      const bool is_freed = (is_made || is_live) && death(row) > from && death(row) <= to;
      if (is_made) expected.allocated.add(bytes);
      if (is_freed) expected.freed.add(bytes);
      if (is_made && !is_freed) expected.survived.add(bytes);
    }
    const RangeChanges changes = changes_in(record_, live_, from, to);
    EXPECT_EQ(changes.all.allocated, expected.allocated);
    EXPECT_EQ(changes.all.freed, expected.freed);
    EXPECT_EQ(changes.all.survived, expected.survived);
    EXPECT_EQ(live_bytes(from) + expected.allocated.bytes - expected.freed.bytes, live_bytes(to));
    RangeFigures by_code;
    for (const auto& [code, figures] : changes.by_code) by_code.add(figures);
    EXPECT_EQ(by_code.allocated, expected.allocated);
    EXPECT_EQ(by_code.freed, expected.freed);
    RangeCount freed;
    for (const auto& [ends, count] : changes.freed_at) freed.add(count.bytes, count.blocks);
    EXPECT_EQ(freed, expected.freed);
  }
}

TEST_P(RangeOfRandomHistory, a_picture_shows_what_is_high_and_long_enough) {
  const EventTimes times(record_.events);
  constexpr Position kFrom = 90;
  constexpr Position kTo = 250;
  SinglesQuery query{kFrom, kTo, Axis::event, 1024, 5, rows_.size()};
  const SinglesPage page = find_singles(record_, live_, times, query);
  std::vector<AllocationId> expected;
  std::uint64_t matches = 0;
  for (std::size_t row = 0; row < rows_.size(); ++row) {
    const Position first = std::max(kFrom, birth(row));
    const Position past = std::min(kTo, death(row));
    if (first >= past || (kFrom == 0 && was_pending(row))) continue;
    ++matches;
    if (rows_.size_bytes[row] >= 1024 && past - first >= 5) expected.emplace_back(row);
  }
  EXPECT_EQ(page.rows, expected);
  EXPECT_EQ(page.matches, matches);
  // Of too many, those that take the most room.
  query.most = 7;
  const SinglesPage few = find_singles(record_, live_, times, query);
  ASSERT_EQ(few.rows.size(), std::min<std::size_t>(7, expected.size()));
  const auto area = [&](AllocationId row) {
    const Position length = std::min(kTo, death(row.index)) - std::max(kFrom, birth(row.index));
    return rows_.size_bytes[row.index] * (length + 1);
  };
  std::uint64_t least = ~std::uint64_t{0};
  for (const AllocationId row : few.rows) least = std::min(least, area(row));
  for (const AllocationId row : expected) {
    const bool is_there = std::ranges::find(few.rows, row) != few.rows.end();
    EXPECT_TRUE(is_there || area(row) <= least);
  }
}

TEST_P(RangeOfRandomHistory, a_picture_of_the_whole_run_by_time_has_what_stays_live) {
  const EventTimes times(record_.events);
  ASSERT_TRUE(times.is_known());
  const auto past = static_cast<Position>(record_.events.size() + 1);
  const auto duration = times.last_ns() - times.first_ns();
  const SinglesQuery query{0, past, Axis::time, 0, 0, rows_.size()};
  const SinglesPage page = find_singles(record_, live_, times, query);
  EXPECT_EQ(page.rows.size(), page.matches);
  // None can be longer than the run.
  const SinglesQuery longer{0, past, Axis::time, 0, duration + 1, rows_.size()};
  EXPECT_EQ(find_singles(record_, live_, times, longer).rows.size(), 0U);
}

INSTANTIATE_TEST_SUITE_P(Seeds, RangeOfRandomHistory, ::testing::Values(1U, 2U, 3U));

}  // namespace
}  // namespace gpumemprof
