// Random programs under every setting: the structure stays consistent, and a simulated run, treated
// as a recording, is reproduced exactly.
#include <gtest/gtest.h>

#include "sim/random_requests.h"
#include "sim/settings_under_test.h"
#include "sim/simulate.h"
#include "sim/verify.h"

namespace gpumemprof::sim {
namespace {

class RandomProgramTest : public testing::TestWithParam<TestedSettings> {
 protected:
  static SimulationOptions options(std::uint64_t limit_bytes = kNoLimit) {
    SimulationOptions options;
    options.settings = settings_of(GetParam());
    options.rules = rules_for(GetParam().version);
    options.limit.allowed_bytes = limit_bytes;
    options.device_total_bytes = 80 * kGiB;
    return options;
  }

  static void serve(Allocator& allocator, const RequestColumns& requests, std::size_t row) {
    const std::uint32_t operand = requests.operand[row];
    const AllocationId id(operand);
    switch (requests.kind[row]) {
      case RequestKind::allocate:
        allocator.allocate(id, requests.size_bytes[operand], requests.stream_pool[operand]);
        break;
      case RequestKind::free:
        allocator.free(id);
        break;
      case RequestKind::request_free:
        allocator.request_free(id);
        break;
      case RequestKind::complete_free:
        allocator.complete_free(id);
        break;
      default:
        allocator.empty_cache();
        break;
    }
  }

  static void expect_always_valid(const RequestColumns& requests,
                                  const SimulationOptions& simulation) {
    RisingAddresses addresses;
    Allocator allocator(
        {simulation.settings, simulation.rules, simulation.limit, simulation.device_total_bytes},
        addresses);
    requests.declare_stream_pools(allocator);
    for (std::size_t row = 0; row < requests.size(); ++row) {
      serve(allocator, requests, row);
      ASSERT_EQ(allocator.find_fault(), "") << "after request " << row;
    }
  }

  // The program's requests, run through the simulator, recorded, and verified like any recording.
  static void expect_round_trip(const RequestColumns& requests,
                                const SimulationOptions& simulation) {
    const EventColumns nothing;
    const SimulatedRun run = simulate_events(requests, simulation, nothing).value();
    RecordedRun recorded;
    recorded.events = &run.events;
    std::vector<PoolId> pools;
    pools.reserve(requests.pools.size());
    for (std::size_t pool = 0; pool < requests.pools.size(); ++pool) {
      pools.push_back(requests.pools[pool] == PoolKind::graph ? PoolId{pool, 0} : PoolId{0, pool});
    }
    recorded.pools = pools;
    VerifyOptions options{simulation.settings, simulation.rules, simulation.limit,
                          simulation.device_total_bytes};
    const Verification verified = verify(recorded, options).value();
    EXPECT_EQ(verified.address_mismatches, 0U) << "first at " << verified.first_mismatch_event;
    EXPECT_EQ(verified.segment_mismatches, 0U) << "first at " << verified.first_mismatch_event;
    const Counters& ours = verified.counters;
    const Counters& theirs = run.result.counters;
    EXPECT_EQ(ours.reserved_bytes.peak(), theirs.reserved_bytes.peak());
    EXPECT_EQ(ours.reserved_bytes.current(), theirs.reserved_bytes.current());
    EXPECT_EQ(ours.allocated_bytes.peak(), theirs.allocated_bytes.peak());
    EXPECT_EQ(ours.num_ooms, theirs.num_ooms);
    EXPECT_EQ(ours.num_device_alloc, theirs.num_device_alloc);
    EXPECT_EQ(ours.num_device_free, theirs.num_device_free);
  }
};

TEST_P(RandomProgramTest, the_structure_stays_whole_without_a_limit) {
  for (std::uint32_t seed = 1; seed <= 3; ++seed) {
    expect_always_valid(random_requests({.seed = seed, .steps = 700, .uses_pools = seed == 3}),
                        options());
  }
}

TEST_P(RandomProgramTest, the_structure_stays_whole_when_memory_runs_out) {
  for (std::uint32_t seed = 1; seed <= 3; ++seed) {
    expect_always_valid(random_requests({.seed = seed, .steps = 900, .hold_bytes = 600 * kMiB}),
                        options(300 * kMiB));
  }
}

TEST_P(RandomProgramTest, the_structure_stays_whole_with_many_small_blocks) {
  expect_always_valid(
      random_requests({.seed = 9, .steps = 1500, .hold_bytes = 40 * kMiB, .max_log2_bytes = 18}),
      options(64 * kMiB));
}

TEST_P(RandomProgramTest, a_simulated_run_verifies_like_a_recording) {
  for (std::uint32_t seed = 11; seed <= 16; ++seed) {
    expect_round_trip(random_requests({.seed = seed, .steps = 3000}), options());
  }
}

TEST_P(RandomProgramTest, a_simulated_run_with_retries_and_ooms_verifies_like_a_recording) {
  for (std::uint32_t seed = 21; seed <= 26; ++seed) {
    const RequestColumns requests = random_requests(
        {.seed = seed, .steps = 3000, .hold_bytes = 700 * kMiB, .uses_streams = false});
    expect_round_trip(requests, options(500 * kMiB));
  }
}

INSTANTIATE_TEST_SUITE_P(Settings, RandomProgramTest, testing::ValuesIn(kTestedSettings),
                         [](const auto& tested) { return name_of(tested.param); });

}  // namespace
}  // namespace gpumemprof::sim
