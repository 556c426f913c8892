#include "sim/simulate.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "sim/search.h"

namespace gpumemprof::sim {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

SimulationOptions simulation_of_2_11(std::uint64_t limit_bytes = kNoLimit) {
  SimulationOptions options;
  options.rules = rules_for({2, 11});
  options.limit.allowed_bytes = limit_bytes;
  return options;
}

// A program written line by line; every line is an event of its own.
class Program {
 public:
  Program() { requests.add_stream_pool({0, kDefaultPool}); }
  std::uint32_t allocate(std::uint64_t bytes, RequestKind kind = RequestKind::allocate) {
    const AllocationId id = requests.add_allocation(bytes, StreamPoolId(0UL));
    requests.add(kind, id.index, event_++);
    return id.index;
  }
  void free(std::uint32_t id) { requests.add(RequestKind::free, id, event_++); }
  void empty_cache() { requests.add(RequestKind::empty_cache, 0, event_++); }

  RequestColumns requests;

 private:
  std::uint32_t event_ = 0;
};

std::vector<Action> actions_of(const EventColumns& events) {
  return {events.action.begin(), events.action.end()};
}

TEST(SimulateTest, gives_peaks_and_device_calls) {
  Program program;
  const auto first = program.allocate(30 * kMiB);
  program.free(first);
  program.allocate(100 * kMiB);
  program.empty_cache();
  const SimulationResult result = simulate(program.requests, simulation_of_2_11()).value();
  EXPECT_EQ(result.peak_allocated_bytes, 100 * kMiB);
  EXPECT_EQ(result.peak_reserved_bytes, 130 * kMiB);
  EXPECT_EQ(result.peak_reserved_event, 2U);
  EXPECT_EQ(result.counters.num_device_alloc, 2U);
  EXPECT_EQ(result.counters.num_device_free, 1U);
  EXPECT_NEAR(result.fragmentation_at_peak(), 30.0 / 130.0, 1e-9);
  EXPECT_EQ(result.first_oom_event, kNoEvent);
}

TEST(SimulateTest, gives_the_most_allocated_in_each_stretch_of_events) {
  Program program;
  const auto first = program.allocate(30 * kMiB);   // event 0
  const auto second = program.allocate(20 * kMiB);  // event 1
  program.free(first);                              // event 2
  program.empty_cache();                            // event 3
  program.free(second);                             // event 4
  AllocatedCurve curve{2, {}};
  SimulationOptions options = simulation_of_2_11();
  options.curve = &curve;
  const SimulationResult result = simulate(program.requests, options).value();
  // Each stretch starts with what the one before it left.
  EXPECT_THAT(curve.most_bytes, ElementsAre(50 * kMiB, 50 * kMiB, 20 * kMiB));
  EXPECT_EQ(result.peak_allocated_bytes, 50 * kMiB);
}

TEST(SimulateTest, a_failed_allocation_does_not_exist_and_the_run_goes_on) {
  Program program;
  program.allocate(100 * kMiB);
  const auto failed = program.allocate(150 * kMiB);
  program.free(failed);
  program.allocate(20 * kMiB);
  const SimulationResult result =
      simulate(program.requests, simulation_of_2_11(200 * kMiB)).value();
  EXPECT_EQ(result.num_ooms(), 1U);
  EXPECT_EQ(result.first_oom_event, 1U);
  EXPECT_EQ(result.counters.allocation.current(), 2U);
  EXPECT_TRUE(result.is_complete);
}

TEST(SimulateTest, stops_at_the_first_oom_when_only_survival_is_asked_for) {
  Program program;
  program.allocate(100 * kMiB);
  program.allocate(150 * kMiB);
  program.allocate(20 * kMiB);
  SimulationOptions options = simulation_of_2_11(200 * kMiB);
  options.stops_at_first_oom = true;
  const SimulationResult result = simulate(program.requests, options).value();
  EXPECT_FALSE(result.is_complete);
  EXPECT_EQ(result.counters.allocation.current(), 1U);
}

TEST(SimulateTest, what_failed_when_recorded_is_tried_and_given_back) {
  Program program;
  program.allocate(100 * kMiB);
  program.allocate(150 * kMiB, RequestKind::failed_allocate);
  program.allocate(140 * kMiB);
  const SimulationResult roomy = simulate(program.requests, simulation_of_2_11(kGiB)).value();
  EXPECT_EQ(roomy.num_ooms(), 0U);
  EXPECT_EQ(roomy.peak_allocated_bytes, 250 * kMiB);
  EXPECT_EQ(roomy.counters.allocation.current(), 2U);
  const SimulationResult tight = simulate(program.requests, simulation_of_2_11(245 * kMiB)).value();
  EXPECT_EQ(tight.num_ooms(), 1U);
  EXPECT_EQ(tight.first_oom_event, 1U);
}

TEST(SimulateTest, a_limit_below_the_first_segment_is_a_usage_error) {
  Program program;
  program.allocate(1000);
  const Result<SimulationResult> result = simulate(program.requests, simulation_of_2_11(kMiB));
  ASSERT_FALSE(result.ok());
  EXPECT_EQ(result.error().code, ErrorCode::usage);
  EXPECT_THAT(result.error().sentence(), HasSubstr("less than the first segment"));
}

TEST(SimulateTest, no_requests_are_no_memory) {
  const SimulationResult result = simulate(RequestColumns(), simulation_of_2_11(1)).value();
  EXPECT_EQ(result.peak_reserved_bytes, 0U);
  EXPECT_EQ(result.fragmentation_at_peak(), 0.0);
}

TEST(SimulateTest, the_simulated_run_is_an_event_stream_with_the_recorded_times_and_stacks) {
  Program program;
  const auto first = program.allocate(30 * kMiB);
  program.free(first);
  program.empty_cache();
  program.allocate(500 * kMiB);
  EventColumns recorded;
  for (std::size_t row = 0; row < 4; ++row) {
    Event event;
    event.time_ns = static_cast<std::int64_t>(row) * 100;
    event.stack = StackId(row);
    recorded.push_back(event);
  }
  const SimulatedRun run =
      simulate_events(program.requests, simulation_of_2_11(100 * kMiB), recorded).value();
  EXPECT_THAT(actions_of(run.events),
              ElementsAre(Action::segment_alloc, Action::alloc, Action::free_requested,
                          Action::free_completed, Action::segment_free, Action::oom));
  EXPECT_EQ(run.events.time_ns[1], 0);
  EXPECT_EQ(run.events.stack[3], StackId(1UL));
  EXPECT_EQ(run.events.address[0], run.events.address[1]);
  EXPECT_EQ(run.events.size_bytes[5], 500 * kMiB);
  EXPECT_EQ(run.events.address[5], 100 * kMiB);  // what was free
  EXPECT_EQ(run.result.first_oom_event, 3U);
}

TEST(SearchTest, the_least_memory_survives_and_two_mib_less_does_not) {
  Program program;
  std::vector<std::uint32_t> ids;
  for (std::uint64_t n = 0; n < 50; ++n) {
    ids.push_back(program.allocate((n * 37 % 11 + 1) * 7 * kMiB));
    if (n % 3 != 0) program.free(ids[n / 2]);
  }
  for (const AllocConf& conf : sensible_settings({2, 11})) {
    SimulationOptions options = simulation_of_2_11();
    options.settings = conf.settings;
    const auto least = find_min_memory(program.requests, options);
    ASSERT_TRUE(least.has_value()) << to_string(conf);
    options.limit.allowed_bytes = least.value_or(MinMemory()).limit_bytes;
    EXPECT_EQ(simulate(program.requests, options).value().num_ooms(), 0U) << to_string(conf);
    options.limit.allowed_bytes -= 2 * kMiB;
    EXPECT_GT(simulate(program.requests, options).value().num_ooms(), 0U) << to_string(conf);
  }
}

TEST(SearchTest, no_limit_helps_a_request_larger_than_any_device) {
  Program program;
  program.allocate(kMaxRequestBytes + 1);
  EXPECT_FALSE(find_min_memory(program.requests, simulation_of_2_11()).has_value());
}

TEST(SearchTest, tries_a_dozen_settings_that_the_version_knows) {
  for (const TorchVersion version :
       {TorchVersion{2, 4}, TorchVersion{2, 11}, TorchVersion{2, 13}}) {
    const auto settings = sensible_settings(version);
    EXPECT_GE(settings.size(), 12U);
    EXPECT_EQ(to_string(settings[0]), "");
  }
}

TEST(SearchTest, ranks_settings_that_survive_before_those_that_do_not) {
  Program program;  // a pinned block in every segment: only expandable segments reuse the rest
  for (int n = 0; n < 20; ++n) {
    const auto large = program.allocate(150 * kMiB);
    program.free(large);
    program.allocate(3 * kMiB);
    const auto larger = program.allocate((150 + 4 * static_cast<std::uint64_t>(n)) * kMiB);
    program.free(larger);
  }
  SearchOptions options;
  options.version = {2, 11};
  options.limit.allowed_bytes = 320 * kMiB;
  std::size_t calls = 0;
  options.progress = [&](std::size_t, std::size_t) { ++calls; };
  const auto settings = sensible_settings({2, 11});
  const auto ranked = search(program.requests, settings, options).value();
  ASSERT_EQ(ranked.size(), settings.size());
  EXPECT_EQ(calls, settings.size());
  EXPECT_EQ(ranked[0].result.num_ooms(), 0U);
  EXPECT_TRUE(ranked[0].conf.settings.expandable_segments);
  EXPECT_GT(ranked.back().result.num_ooms(), 0U);
  for (std::size_t row = 1; row < ranked.size() && ranked[row].result.num_ooms() == 0; ++row)
    EXPECT_GE(ranked[row].result.peak_reserved_bytes, ranked[row - 1].result.peak_reserved_bytes);
}

}  // namespace
}  // namespace gpumemprof::sim
