// A ring that lost its start: the first events are removed, and the rest must say from which event
// on it is exact, and be exact from there on.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <set>

#include "replay/fixture.h"
#include "replay/timeline.h"

namespace gpumemprof::test {
namespace {

// Giving up does not pass: the least share of its late histories that a recording must call exact.
// What stays open is a block of the large pool that is freed with more than 1 MiB of free memory
// after it: it may have been up to 1 MiB larger than its request. Expandable segments have no such
// blocks; oom_fragmented consists of them.
double least_exact_share(const std::string& name) {
  if (name.find("exp") != std::string::npos) return 1.0;
  return name == "oom_fragmented" ? 0.1 : 0.75;
}

class LateHistory : public testing::TestWithParam<std::string> {
 protected:
  LateHistory()
      : fixture_(load_fixture(GetParam())),
        whole_(fixture_.device()),
        whole_replay_(replay_device(whole_, fixture_.store->settings(), fixture_.store->origin())),
        whole_timeline_(timeline_of(whole_)) {}

  // The places that matter most: inside a malloc, inside a free, inside a flush.
  [[nodiscard]] std::set<std::size_t> telling_starts() const {
    const auto& action = whole_.events.action;
    std::set<std::size_t> starts = {1, 2, 3, whole_.events.size() - 1};
    for (std::size_t part = 1; part < 24; ++part) starts.insert(whole_.events.size() * part / 24);
    std::map<std::pair<Action, Action>, int> seen;
    for (std::size_t event = whole_.events.size() / 5; event < whole_.events.size(); ++event) {
      if (++seen[{action[event - 1], action[event]}] <= 3) starts.insert(event);
    }
    return starts;
  }

  // Checks one start and returns how many of its events are exact.
  std::size_t check(std::size_t start) {
    const auto late = with_events(whole_, [&](std::size_t event) { return event >= start; });
    const DeviceReplay replay =
        replay_device(*late, fixture_.store->settings(), fixture_.store->origin());
    EXPECT_EQ(replay.end.totals, whole_replay_.end.totals);
    EXPECT_EQ(replay.end.inactive_split_bytes, whole_replay_.end.inactive_split_bytes);
    EXPECT_EQ(replay.end.segments, whole_replay_.end.segments);
    EXPECT_EQ(replay.contradictions, 0U);
    if (!replay.exact_from_event) return 0;
    const std::size_t first = *replay.exact_from_event;
    const std::vector<MemoryTotals> timeline = timeline_of(*late);
    if (first == 0) {
      EXPECT_EQ(replay.start, whole_timeline_[start - 1]);
    }
    for (std::size_t event = first; event < timeline.size(); ++event) {
      EXPECT_EQ(timeline[event], whole_timeline_[start + event])
          << "event " << event << " of " << timeline.size();
      if (HasFailure()) return 0;
    }
    check_peak(replay, start);
    return timeline.size() - std::min(first, timeline.size());
  }

  void check_peak(const DeviceReplay& replay, std::size_t start) const {
    if (replay.exact_from_event != 0U) return;
    std::uint64_t allocated = 0;
    std::uint64_t reserved = 0;
    for (std::size_t event = start - 1; event < whole_timeline_.size(); ++event) {
      allocated = std::max(allocated, whole_timeline_[event].allocated_bytes);
      reserved = std::max(reserved, whole_timeline_[event].reserved_bytes);
    }
    EXPECT_EQ(replay.peak.allocated_bytes, allocated);
    EXPECT_EQ(replay.peak_reserved_bytes, reserved);
  }

  Fixture fixture_;
  DeviceRecord& whole_;
  DeviceReplay whole_replay_;
  std::vector<MemoryTotals> whole_timeline_;
};

TEST_P(LateHistory, is_exact_from_where_it_says_on) {
  std::size_t events = 0;
  std::size_t exact = 0;
  for (const std::size_t start : telling_starts()) {
    SCOPED_TRACE(testing::Message() << "first event kept: " << start);
    exact += check(start);
    events += whole_.events.size() - start;
    if (HasFailure()) return;
  }
  EXPECT_GE(static_cast<double>(exact), least_exact_share(GetParam()) * static_cast<double>(events))
      << exact << " of " << events;
}

INSTANTIATE_TEST_SUITE_P(Snapshots, LateHistory, testing::ValuesIn(fixture_names()),
                         [](const auto& run) { return run.param; });

}  // namespace
}  // namespace gpumemprof::test
