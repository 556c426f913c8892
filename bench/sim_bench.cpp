// How many recorded events a second the simulated allocator takes, on real training steps repeated,
// at two sizes: the rate must not fall with the length of the run.
#include <benchmark/benchmark.h>

#include <cstdlib>

#include "analysis/whatif/recorded_device.h"
#include "session/recording.h"
#include "sim/search.h"

namespace gpumemprof {
namespace {

// GPUMEMPROF_BENCH_FILE: a snapshot, for example of bench/make_snapshot.py.
const Recording& recording() {
  static const std::shared_ptr<const Recording> kOpened = [] {
    const char* path = std::getenv("GPUMEMPROF_BENCH_FILE");
    Result<std::shared_ptr<const Recording>> result = Recording::open(
        path == nullptr ? "tests/data/snapshots/gpt2_b4_fp32_adamw.pickle.gz" : path);
    GMP_CHECK(result.ok());
    return result.value();
  }();
  return *kOpened;
}

sim::Verification verify_recording() {
  const RecordedDevice device(recording().store(), *recording().store().devices().front(),
                              recording().replays().front());
  sim::VerifyOptions options;
  options.settings = recording().store().settings();
  options.rules = sim::rules_for({2, 11});
  return sim::verify(device.run(), options).value();
}

void simulates_recorded_requests(benchmark::State& state) {
  const sim::Verification verified = verify_recording();
  sim::SimulationOptions options;
  options.settings.expandable_segments = state.range(0) != 0;
  for (auto _ : state) {
    benchmark::DoNotOptimize(sim::simulate(verified.requests, options).value().peak_reserved_bytes);
  }
  state.SetItemsProcessed(state.iterations() *
                          static_cast<std::int64_t>(recording().store().event_count()));
}
BENCHMARK(simulates_recorded_requests)
    ->Arg(0)
    ->Arg(1)
    ->ArgName("expandable")
    ->Unit(benchmark::kMillisecond);

void verifies_a_recording(benchmark::State& state) {
  for (auto _ : state) benchmark::DoNotOptimize(verify_recording().address_mismatches);
  state.SetItemsProcessed(state.iterations() *
                          static_cast<std::int64_t>(recording().store().event_count()));
}
BENCHMARK(verifies_a_recording)->Unit(benchmark::kMillisecond);

void searches_the_sensible_settings(benchmark::State& state) {
  const sim::Verification verified = verify_recording();
  sim::SearchOptions options;
  options.version = {2, 11};
  const std::vector<AllocConf> settings = sim::sensible_settings(options.version);
  for (auto _ : state) {
    benchmark::DoNotOptimize(sim::search(verified.requests, settings, options).value().size());
  }
  state.counters["settings"] = static_cast<double>(settings.size());
}
BENCHMARK(searches_the_sensible_settings)->Unit(benchmark::kSecond)->Iterations(1);

}  // namespace
}  // namespace gpumemprof
