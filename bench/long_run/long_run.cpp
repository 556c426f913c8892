#include "long_run/long_run.h"

namespace gpumemprof::long_run {
namespace {

constexpr std::uint64_t kCardBytes = 25'386'352'640;

// As a live recording states them, in that order.
Origin live_origin() {
  Origin origin;
  origin.kind = kLiveRun;
  origin.has_start = true;
  origin.has_traces = true;
  origin.facts = {{"gpumemprof", GPUMEMPROF_VERSION},
                  {"python", "3.12.3"},
                  {"host", "trainer"},
                  {"pid", "30195"},
                  {"command", "train.py --steps all"},
                  {"torch", "2.11.0+cu130"},
                  {"cuda", "13.0"},
                  {"forward_stacks", "on"},
                  {"modules", "by instance"},
                  {"device 0", "NVIDIA GeForce RTX 4090"},
                  {"device 0 total_bytes", std::to_string(kCardBytes)},
                  {"device 0 memory_fraction", "1.0"},
                  {"settings", ""},
                  {"capture", "native"},
                  {"self_test", "passed"}};
  return origin;
}

}  // namespace

Result<LongRun> make_long_run(const LongRunOptions& options) {
  Origin origin = live_origin();
  TraceOptions trace;
  trace.existing = FileSink::Existing::replace;
  Result<std::unique_ptr<TraceWriter>> opened =
      TraceWriter::open(options.path, origin, AllocatorSettings(), trace);
  if (!opened) return opened.error();
  TraceWriter& writer = *opened.value();

  Recorder recorder(writer, {options.seed, options.flush_every, kCardBytes});
  Training training(recorder, {options.events, options.seed, kCardBytes, options.has_labels});
  LongRun run;
  run.path = options.path;
  run.parameter_bytes = training.model().parameter_bytes();
  run.training = training.run();

  const sim::Counters& counters = training.memory().counters();
  origin.facts.emplace_back("device 0 memory_fraction_at_end", "1.0");
  origin.facts.emplace_back("device 0 num_alloc_retries",
                            std::to_string(counters.num_alloc_retries));
  if (options.has_labels)
    origin.facts.emplace_back("parameter_bytes float32", std::to_string(run.parameter_bytes));
  writer.set_origin(origin);
  if (Status closed = recorder.close(); !closed) return closed.error();
  run.counts = recorder.counts();
  run.size_bytes = writer.size_bytes();
  return run;
}

}  // namespace gpumemprof::long_run
