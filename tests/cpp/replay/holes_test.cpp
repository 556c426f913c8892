// Recordings with events missing in the middle: skip_actions, or a damaged file. Whatever is
// missing, the end matches the segments, and from exact_from_event on nothing differs from the
// whole recording.
#include <gtest/gtest.h>

#include <random>

#include "replay/fixture.h"
#include "replay/timeline.h"

namespace gpumemprof::test {
namespace {

bool takes_memory(Action action) {
  return action == Action::segment_alloc || action == Action::segment_map;
}

class Holes : public testing::TestWithParam<std::string> {
 protected:
  Holes()
      : fixture_(load_fixture(GetParam())),
        whole_(fixture_.device()),
        whole_replay_(replay_device(whole_, fixture_.store->settings(), fixture_.store->origin())),
        whole_timeline_(timeline_of(whole_)) {}

  // Which of the totals replay can guarantee. If the event that allocated a segment is missing,
  // nothing distinguishes it from one that existed before the history began.
  enum class Vouched { everything, all_but_reserved };

  template <typename Keep>
  DeviceReplay check(Keep&& keeps, Vouched vouched = Vouched::everything) {
    std::vector<std::size_t> kept;
    const auto holed = with_events(whole_, [&](std::size_t event) {
      const bool keep = keeps(event);
      if (keep) kept.push_back(event);
      return keep;
    });
    DeviceReplay replay =
        replay_device(*holed, fixture_.store->settings(), fixture_.store->origin());
    EXPECT_EQ(replay.end.totals, whole_replay_.end.totals);
    EXPECT_EQ(replay.end.inactive_split_bytes, whole_replay_.end.inactive_split_bytes);
    EXPECT_EQ(replay.end.segments, whole_replay_.end.segments);
    EXPECT_EQ(replay.end.mapped_runs, whole_replay_.end.mapped_runs);
    const std::vector<MemoryTotals> timeline = timeline_of(*holed);
    for (std::size_t event = replay.exact_from_event.value_or(kNoEvent); event < timeline.size();
         ++event) {
      MemoryTotals played = timeline[event];
      MemoryTotals truth = whole_timeline_[kept[event]];
      if (vouched == Vouched::all_but_reserved) played.reserved_bytes = truth.reserved_bytes = 0;
      EXPECT_EQ(played, truth) << "event " << event << " of " << timeline.size() << ", exact from "
                               << *replay.exact_from_event;
      if (HasFailure()) break;
    }
    return replay;
  }

  [[nodiscard]] Action action(std::size_t event) const { return whole_.events.action[event]; }

  Fixture fixture_;
  DeviceRecord& whole_;
  DeviceReplay whole_replay_;
  std::vector<MemoryTotals> whole_timeline_;
};

TEST_P(Holes, stays_honest_without_completed_frees) {
  check([&](std::size_t event) { return action(event) != Action::free_completed; });
}

TEST_P(Holes, stays_honest_without_requested_frees) {
  check([&](std::size_t event) { return action(event) != Action::free_requested; });
}

TEST_P(Holes, stays_honest_without_any_free) {
  check([&](std::size_t event) {
    return action(event) != Action::free_requested && action(event) != Action::free_completed;
  });
}

TEST_P(Holes, stays_honest_without_allocations) {
  check([&](std::size_t event) { return action(event) != Action::alloc; });
}

TEST_P(Holes, stays_honest_without_events_of_segments) {
  check(
      [&](std::size_t event) {
        return action(event) < Action::segment_alloc || action(event) > Action::segment_unmap;
      },
      Vouched::all_but_reserved);
}

TEST_P(Holes, stays_honest_with_one_event_missing) {
  std::mt19937 random(7);
  int known = 0;
  for (int round = 0; round < 40; ++round) {
    const std::size_t missing = random() % whole_.events.size();
    SCOPED_TRACE(testing::Message()
                 << action_name(action(missing)) << " at event " << missing << " is missing");
    const DeviceReplay replay =
        check([&](std::size_t event) { return event != missing; },
              takes_memory(action(missing)) ? Vouched::all_but_reserved : Vouched::everything);
    if (HasFailure()) return;
    if (replay.exact_from_event) ++known;
  }
  EXPECT_GT(known, 20) << "it is honest only because it gives up";
}

TEST_P(Holes, stays_honest_with_many_events_missing) {
  for (unsigned seed = 1; seed <= 12; ++seed) {
    std::mt19937 random(seed);
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    const unsigned one_in = 2U << (seed % 6);
    check([&](std::size_t event) { return takes_memory(action(event)) || random() % one_in != 0; });
    if (HasFailure()) return;
  }
}

INSTANTIATE_TEST_SUITE_P(Snapshots, Holes, testing::ValuesIn(fixture_names()),
                         [](const auto& run) { return run.param; });

}  // namespace
}  // namespace gpumemprof::test
