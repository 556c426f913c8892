// Recorded runs that come part by part: checked and simulated as when they are there at once.
#include "sim/streamed.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "sim/limit_finder.h"
#include "sim/recorded_case.h"
#include "sim/search.h"

namespace gpumemprof::sim {
namespace {

// With the pool of each event, as the parts must have it.
EventColumns events_with_pools(const RecordedCase& recorded) {
  EventColumns events;
  events.append(recorded.events, 0, recorded.events.size());
  const RecordedRun run = recorded.run();
  events.pool.clear();
  for (std::size_t row = 0; row < events.size(); ++row) events.pool.push_back(run.pool_row(row));
  return events;
}

// Under every sensible setting, with half of what the run had, and with all of it.
std::vector<SimulationOptions> trials_of(const RecordedCase& recorded, std::uint64_t peak_bytes) {
  std::vector<SimulationOptions> trials;
  for (const AllocConf& conf : sensible_settings({2, 11})) {
    for (const std::uint64_t limit : {peak_bytes / 2, peak_bytes, kNoLimit}) {
      SimulationOptions options;
      options.settings = conf.settings;
      options.rules = recorded.truth.options().rules;
      options.limit = {limit, kNoLimit};
      options.stops_at_first_oom = limit != kNoLimit;
      trials.push_back(options);
    }
  }
  return trials;
}

void expect_same(const Result<SimulationResult>& streamed, const Result<SimulationResult>& whole) {
  ASSERT_EQ(streamed.ok(), whole.ok());
  if (!whole.ok()) return;
  EXPECT_EQ(streamed->first_oom_event, whole->first_oom_event);
  EXPECT_EQ(streamed->is_complete, whole->is_complete);
  EXPECT_EQ(streamed->peak_reserved_bytes, whole->peak_reserved_bytes);
  EXPECT_EQ(streamed->peak_allocated_bytes, whole->peak_allocated_bytes);
  EXPECT_EQ(streamed->peak_reserved_event, whole->peak_reserved_event);
  EXPECT_EQ(streamed->counters.num_ooms, whole->counters.num_ooms);
  EXPECT_EQ(streamed->counters.num_alloc_retries, whole->counters.num_alloc_retries);
  EXPECT_EQ(streamed->counters.inactive_split_bytes.peak(),
            whole->counters.inactive_split_bytes.peak());
}

class StreamedRunTest : public testing::TestWithParam<const char*> {};

TEST_P(StreamedRunTest, parts_of_any_length_give_what_the_whole_gives) {
  const auto recorded = RecordedCase::load(GetParam());
  const VerifyOptions options = recorded->truth.options();
  const EventColumns events = events_with_pools(*recorded);
  RecordedRun run = recorded->run();
  run.events = &events;
  run.pool_of_event = {};
  const Verification whole = verify(run, options).value();
  const std::vector<SimulationOptions> trials =
      trials_of(*recorded, whole.counters.reserved_bytes.peak());
  for (const std::size_t part : {std::size_t{1}, std::size_t{97}, events.size()}) {
    StreamedRun streamed(run, options, whole.limit);
    for (const SimulationOptions& trial : trials) streamed.add_trial(trial);
    for (std::size_t first = 0; first < events.size(); first += part) {
      EventColumns next;
      next.append(events, first, std::min(part, events.size() - first));
      streamed.add(next);
    }
    const Result<StreamedRun::Outcome> outcome = streamed.finish();
    ASSERT_TRUE(outcome.ok());
    const Verification& verified = outcome->verification;
    EXPECT_TRUE(verified.is_exact());
    EXPECT_EQ(verified.allocations, whole.allocations);
    EXPECT_EQ(verified.segment_calls, whole.segment_calls);
    EXPECT_EQ(verified.empty_caches, whole.empty_caches);
    EXPECT_EQ(verified.counters_compared, whole.counters_compared);
    EXPECT_EQ(verified.end_blocks, whole.end_blocks);
    ASSERT_EQ(outcome->trials.size(), trials.size());
    for (std::size_t index = 0; index < trials.size(); ++index)
      expect_same(outcome->trials[index], simulate(whole.requests, trials[index]));
  }
}

TEST_P(StreamedRunTest, the_limit_is_the_same_when_events_pass) {
  const auto recorded = RecordedCase::load(GetParam());
  const AllocatorSettings settings = recorded->truth.options().settings;
  const std::optional<InferredLimit> whole = infer_limit(recorded->run(), settings);
  LimitFinder finder(recorded->run().start.segments, settings);
  for (std::size_t row = recorded->run().first_event; row < recorded->events.size(); ++row) {
    EventColumns next;
    next.append(recorded->events, row, 1);
    finder.read(next, 0, static_cast<std::uint32_t>(row));
  }
  ASSERT_EQ(finder.found().has_value(), whole.has_value());
  if (!whole) return;
  EXPECT_EQ(finder.found()->low_bytes, whole->low_bytes);
  EXPECT_EQ(finder.found()->high_bytes, whole->high_bytes);
  EXPECT_EQ(finder.found()->event, whole->event);
}

INSTANTIATE_TEST_SUITE_P(Recordings, StreamedRunTest,
                         testing::Values("default_mixed", "expandable_streams", "split64_train",
                                         "gc60_streams_cap", "oom_fragmented", "oom_true_shortage",
                                         "cudagraph", "gpt2_b4_fp32_adamw",
                                         "expandable_streams_ooms", "split100_large48_streams_ooms",
                                         "expandable_pools_ooms", "split64_pools_ooms"),
                         [](const auto& tested) { return std::string(tested.param); });

}  // namespace
}  // namespace gpumemprof::sim
