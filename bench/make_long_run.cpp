// make_long_run OUT.gmp --events N: writes a recording of a long training run, to measure how the
// other commands take it.
//
// It looks like a live recording of a GPT on a GPU. Every allocation was placed by the simulated
// allocator. One line of JSON says what it holds, so that reports can be compared with it.
#include <fmt/core.h>

#include <CLI/CLI.hpp>
#include <chrono>
#include <cstdio>

#include "long_run/long_run.h"

namespace gpumemprof::long_run {
namespace {

// Enough steps for all that happens once; rows of events are numbers of 32 bits.
constexpr std::uint64_t kFewestEvents = 10'000;
constexpr std::uint64_t kMostEvents = 4'000'000'000;

std::string as_json(const Maximum& maximum) {
  return fmt::format(R"({{"bytes": {}, "event": {}}})", maximum.bytes, maximum.event);
}

std::string as_json(const Peak& peak) {
  return fmt::format(R"("allocated": {}, "reserved": {})", as_json(peak.allocated),
                     as_json(peak.reserved));
}

std::string as_json(const LongStep& step) {
  return fmt::format(R"({{"step": {}, {}}})", step.step, as_json(step.peak));
}

void print(const LongRun& run, double seconds) {
  const TrainingSummary& training = run.training;
  fmt::print(R"({{"events": {}, "steps": {}, "evaluations": {}, "allocations": {}, )"
             R"("frees": {}, "peak": {{{}}}, "first_long_step": {}, "second_long_step": {}, )",
             run.counts.total(), training.steps, training.evaluations, run.counts.allocations,
             run.counts.frees, as_json(training.peak), as_json(training.first),
             as_json(training.second));
  fmt::print(
      R"("oom_event": {}, "leak": {{"bytes_per_step": {}, "bytes": {}}}, "parameter_bytes": {}, )"
      R"("size_bytes": {}, "seconds": {:.2f}, "events_per_second": {:.0f}}})"
      "\n",
      training.oom_event, static_cast<double>(kLeakBytes) / static_cast<double>(kLeakEverySteps),
      training.leaked_bytes, run.parameter_bytes, run.size_bytes, seconds,
      static_cast<double>(run.counts.total()) / seconds);
}

int run_command(int argc, const char* const* argv) {
  CLI::App app("Writes a recording of a long training run");
  LongRunOptions options;
  bool has_no_labels = false;
  app.add_option("OUT", options.path, "the file to write")->required();
  app.add_option("--events", options.events, "about how many events it holds")
      ->required()
      ->check(CLI::Range(kFewestEvents, kMostEvents));
  app.add_option("--seed", options.seed, "another one gives batches of other lengths");
  app.add_option("--flush-every", options.flush_every, "events between two flushes")
      ->check(CLI::PositiveNumber);
  app.add_flag("--no-labels", has_no_labels, "as with labels switched off");
  CLI11_PARSE(app, argc, argv);
  options.has_labels = !has_no_labels;

  const auto start = std::chrono::steady_clock::now();
  const Result<LongRun> run = make_long_run(options);
  if (!run) {
    fmt::print(stderr, "make_long_run: {}\n", run.error().sentence());
    return 1;
  }
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;
  print(run.value(), took.count());
  return 0;
}

}  // namespace
}  // namespace gpumemprof::long_run

int main(int argc, char** argv) { return gpumemprof::long_run::run_command(argc, argv); }
