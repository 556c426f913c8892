// Advice: what each remedy would save in this very run, and what it costs.
//
// A remedy rewrites the recorded run as the changed program would run, and the simulated allocator
// serves the rewritten run. Where the recording does not say all that a rewrite needs, the
// prediction has a wider band. A predicted peak is never given without its band.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "analysis/completeness/completeness.h"
#include "analysis/sources/sources.h"
#include "base/result.h"
#include "event/provenance.h"
#include "replay/replay.h"
#include "store/store.h"

namespace gpumemprof {

// Another recording of the same program, with another batch or sequences of another length.
struct OtherRun {
  const Store* store = nullptr;
  const std::vector<std::vector<PhaseSpan>>* phases = nullptr;
};

struct AdviceOptions {
  std::optional<DeviceIndex> device;       // none: the one with the highest peak
  std::optional<std::uint64_t> fit_bytes;  // find the cheapest way under this limit
  std::optional<std::uint64_t> batch;      // samples in a recorded batch: recordings do not say
  std::optional<std::uint64_t> sequence;   // tokens in a recorded sequence: the same
  std::optional<OtherRun> other;           // sharpens what is said of batches or sequences
  std::function<void(std::size_t done, std::size_t total)> progress;  // may be empty
};

struct PredictedBytes {
  std::uint64_t bytes = 0;
  std::uint64_t low_bytes = 0;
  std::uint64_t high_bytes = 0;
};

// A moment of most allocated bytes: where it lies and what holds it.
struct PeakPicture {
  std::uint64_t bytes = 0;
  Phase phase = Phase::other;
  SourceBytes by_source{};
};

struct Remedy {
  std::string name;   // "checkpointing"
  std::string title;  // "activation checkpointing of every block"
  // None where it cannot be predicted from this recording, or does not apply: `why` says which.
  std::optional<PredictedBytes> peak_allocated;
  std::optional<PredictedBytes> peak_reserved;
  Provenance provenance = Provenance::simulated;
  std::int64_t saving_bytes = 0;  // of allocated bytes; negative: it takes more
  std::optional<double> slowdown_pct;
  bool is_slowdown_measured = false;  // from the recorded phases; else a rule of thumb
  std::string why;
  std::string how;          // plain PyTorch
  std::string how_trainer;  // transformers' Trainer; empty: it has no switch
  PeakPicture after;
};

// Which blocks of a pass are checkpointed.
struct CheckpointedBlocks {
  std::uint32_t of = 0;              // so many blocks run one behind the other
  std::vector<std::uint32_t> which;  // in the order they run, from 0
  std::string how;                   // the code that checkpoints these
};

// Remedies together, in the order to apply them.
struct RemedySet {
  std::vector<std::string> names;
  PredictedBytes peak_allocated;
  std::optional<PredictedBytes> peak_reserved;  // none on the CPU
  std::optional<double> slowdown_pct;
  bool is_slowdown_measured = false;
  std::optional<CheckpointedBlocks> checkpointed;  // where checkpointing is among them
};

struct FitPlan {
  std::uint64_t limit_bytes = 0;
  bool fits_already = false;
  bool is_found = false;
  RemedySet set;                        // the cheapest
  std::vector<RemedySet> alternatives;  // others that fit, cheapest first
  // How many times the recorded batch then fits; below 1 where micro-batches were made smaller.
  double largest_batch_factor = 1;
  std::optional<std::uint64_t> largest_batch;  // in samples, where the recorded batch is known
  // The same of sequences, at the recorded batch; none where the recording has no sequences.
  std::optional<double> largest_sequence_factor;
  std::optional<std::uint64_t> largest_sequence;  // in tokens, where the recorded length is known
};

struct Advice {
  std::string path;
  Completeness completeness;  // of the recording
  DeviceIndex device = 0;
  std::string device_name;
  std::uint64_t peak_allocated_bytes = 0;
  std::uint64_t peak_reserved_bytes = 0;
  PeakPicture baseline;
  std::vector<Remedy> remedies;  // what saves most first
  std::optional<FitPlan> fit;
  std::vector<std::string> missing;  // which recording would say more
};

Result<Advice> advise(const Store& store, const std::vector<DeviceReplay>& replays,
                      const std::vector<std::vector<PhaseSpan>>& phases, std::string path,
                      const AdviceOptions& options);

}  // namespace gpumemprof
