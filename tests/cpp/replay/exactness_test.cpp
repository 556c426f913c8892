// Every recorded snapshot, replayed, equals PyTorch's counters: no tolerance.
#include <gtest/gtest.h>

#include <algorithm>

#include "replay/fixture.h"
#include "replay/timeline.h"

namespace gpumemprof::test {
namespace {

using nlohmann::json;

class RecordedRun : public testing::TestWithParam<std::string> {
 protected:
  RecordedRun()
      : fixture_(load_fixture(GetParam())),
        stats_(fixture_.truth.at("stats")),
        replay_(replay_device(fixture_.device(), fixture_.store->settings(),
                              fixture_.store->origin())) {}

  [[nodiscard]] std::uint64_t stat(const std::string& name) const {
    return stats_.at(name).get<std::uint64_t>();
  }

  // Training runs reset the peaks at every step, and the counters' own peaks hold only the last
  // one.
  [[nodiscard]] std::uint64_t peak(const std::string& in_steps, const std::string& in_stats) const {
    std::uint64_t highest = stat(in_stats);
    if (!fixture_.truth.contains("steps")) return highest;
    for (const json& step : fixture_.truth.at("steps")) {
      for (const json& phase : step) {
        if (phase.is_object() && phase.contains(in_steps)) {
          highest = std::max(highest, phase.at(in_steps).get<std::uint64_t>());
        }
      }
    }
    return highest;
  }

  Fixture fixture_;
  json stats_;
  DeviceReplay replay_;
};

TEST_P(RecordedRun, is_exact_from_its_first_event) {
  ASSERT_EQ(fixture_.store->devices().size(), 1U);
  EXPECT_EQ(fixture_.device().events.size(), fixture_.truth.at("events").get<std::size_t>());
  EXPECT_EQ(replay_.exact_from_event, 0U);
  EXPECT_EQ(replay_.contradictions, 0U);
  EXPECT_EQ(replay_.blocks_from_before, 0U);
  EXPECT_TRUE(replay_.has_history);
  EXPECT_TRUE(replay_.has_end);
}

TEST_P(RecordedRun, has_the_peaks_of_the_counters) {
  EXPECT_EQ(replay_.peak.allocated_bytes, peak("peak", "allocated_bytes.all.peak"));
  EXPECT_EQ(replay_.peak_reserved_bytes, peak("peak_reserved", "reserved_bytes.all.peak"));
}

TEST_P(RecordedRun, ends_as_the_counters_do) {
  EXPECT_EQ(replay_.end.totals.allocated_bytes, stat("allocated_bytes.all.current"));
  EXPECT_EQ(replay_.end.totals.active_bytes, stat("active_bytes.all.current"));
  EXPECT_EQ(replay_.end.totals.reserved_bytes, stat("reserved_bytes.all.current"));
  EXPECT_EQ(replay_.end.totals.requested_bytes, stat("requested_bytes.all.current"));
  EXPECT_EQ(replay_.end.inactive_split_bytes, stat("inactive_split_bytes.all.current"));
  EXPECT_EQ(replay_.end.segments, stat("segment.all.current"));
}

TEST_P(RecordedRun, counts_what_the_counters_count) {
  EXPECT_EQ(replay_.counters.allocations, stat("allocation.all.allocated"));
  EXPECT_EQ(replay_.counters.frees, stat("allocation.all.freed"));
  EXPECT_EQ(replay_.counters.segment_allocs, stat("segment.all.allocated"));
  EXPECT_EQ(replay_.counters.segment_frees, stat("segment.all.freed"));
  EXPECT_EQ(replay_.counters.segment_allocs + replay_.counters.segment_maps,
            stat("num_device_alloc"));
  EXPECT_EQ(replay_.counters.segment_frees + replay_.counters.segment_unmaps,
            stat("num_device_free"));
  // Never a number other than torch's; none where empty_cache() could have left the same events.
  EXPECT_EQ(replay_.counters.alloc_retries.value_or(stat("num_alloc_retries")),
            stat("num_alloc_retries"));
  EXPECT_EQ(replay_.counters.ooms, stat("num_ooms"));
}

// The sums over all lifetimes catch a block with a wrong size even if it was allocated and freed
// between two peaks.
TEST_P(RecordedRun, hands_out_as_many_bytes_in_all_as_the_counters_say) {
  std::uint64_t allocated = 0;
  std::uint64_t requested = 0;
  const AllocationColumns& blocks = fixture_.device().allocations;
  for (std::size_t row = 0; row < blocks.size(); ++row) {
    allocated += blocks.size_bytes[row];
    requested += blocks.requested_bytes[row];
  }
  EXPECT_EQ(allocated, stat("allocated_bytes.all.allocated"));
  EXPECT_EQ(requested, stat("requested_bytes.all.allocated"));
}

TEST_P(RecordedRun, has_lifetimes_that_add_up_to_its_totals) {
  const std::vector<MemoryTotals> timeline = timeline_of(fixture_.device());
  ASSERT_NE(replay_.peak_event, kNoEvent);
  EXPECT_EQ(timeline[replay_.peak_event], replay_.peak);
  EXPECT_EQ(timeline[replay_.peak_reserved_event].reserved_bytes, replay_.peak_reserved_bytes);
  EXPECT_EQ(timeline.back(), replay_.end.totals);
  std::uint64_t highest = 0;
  for (const MemoryTotals& totals : timeline) highest = std::max(highest, totals.allocated_bytes);
  EXPECT_EQ(highest, replay_.peak.allocated_bytes);
}

INSTANTIATE_TEST_SUITE_P(Snapshots, RecordedRun, testing::ValuesIn(fixture_names()),
                         [](const auto& run) { return run.param; });

}  // namespace
}  // namespace gpumemprof::test
