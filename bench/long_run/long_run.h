// make_long_run(): a .gmp file of a training run of any length, in bounded memory.
#pragma once

#include <cstdint>
#include <string>

#include "base/result.h"
#include "event/recording.h"
#include "long_run/training.h"

namespace gpumemprof::long_run {

struct LongRunOptions {
  std::string path;  // replaced if it exists
  std::uint64_t events = 0;
  std::uint64_t seed = 1;
  // The drain thread writes every 400 ms.
  std::uint64_t flush_every = 133'000;
  bool has_labels = true;
};

struct LongRun {
  std::string path;
  EventCounts counts;
  TrainingSummary training;
  std::uint64_t parameter_bytes = 0;
  std::uint64_t size_bytes = 0;
};

Result<LongRun> make_long_run(const LongRunOptions& options);

}  // namespace gpumemprof::long_run
