// Advice: what each remedy would save in this very run, and what it costs.
//
// A remedy rewrites the recorded run as the changed program would run, and the simulated allocator
// serves the rewritten run. Where the recording does not say all that a rewrite needs, the
// prediction has a wider band. A predicted peak is never given without its band.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "analysis/completeness/completeness.h"
#include "analysis/growth/growth.h"
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
  // Remedies to predict together, by their names: {"autocast_bf16", "micro_batch_x0.5"}.
  std::vector<std::vector<std::string>> together;
  std::optional<OtherRun> other;  // sharpens what is said of batches or sequences
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

// What a remedy costs its user.
enum class RemedyCost : std::uint8_t {
  free,              // the same results, no slower
  slower,            // the same results, later
  changes_training,  // other numbers: precision, optimizer, batch, sequences; also of inference
};
inline constexpr std::size_t kRemedyCostCount = 3;

constexpr std::string_view remedy_cost_name(RemedyCost cost) {
  constexpr std::array<std::string_view, kRemedyCostCount> kNames = {"free", "slower",
                                                                     "changes_training"};
  return kNames[static_cast<std::size_t>(cost)];
}

struct Remedy {
  std::string name;   // "checkpointing"
  std::string title;  // "activation checkpointing of every block"
  RemedyCost cost = RemedyCost::free;
  // None where it cannot be predicted from this recording, or does not apply: `why` says which.
  std::optional<PredictedBytes> peak_allocated;
  std::optional<PredictedBytes> peak_reserved;
  // Instead of a prediction, where only a part of a step is known: it takes this and more.
  std::optional<std::uint64_t> at_least_bytes;
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
  // The module of each, "transformer.h.0"; empty where the recording does not tell instances apart.
  std::vector<std::string> modules;
  std::string how;  // the code that checkpoints these
};

// The code of one remedy of a set.
struct RemedyCode {
  std::string name;
  std::string how;
  std::string how_trainer;  // empty: it has no switch
};

// Remedies together, in the order to apply them.
struct RemedySet {
  std::vector<std::string> names;
  std::vector<RemedyCode> code;  // one for each
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
  std::string refusal;                  // a sentence, where the recording cannot tell what fits
  std::optional<RemedySet> least;       // where nothing fits: what takes least
  std::uint64_t least_limit_bytes = 0;  // and the lowest limit it survives
  RemedySet set;                        // the cheapest
  std::vector<RemedySet> alternatives;  // others that fit, cheapest first
  // How many times the recorded batch then fits; below 1 where micro-batches were made smaller.
  double largest_batch_factor = 1;
  std::optional<std::uint64_t> largest_batch;  // in samples, where the recorded batch is known
  // The same of sequences, at the recorded batch; none where the recording has no sequences.
  std::optional<double> largest_sequence_factor;
  std::optional<std::uint64_t> largest_sequence;  // in tokens, where the recorded length is known
};

// A run that ran out of memory, continued as far as its own facts lead.
struct CompletedPeak {
  std::uint64_t peak_allocated_bytes = 0;
  std::uint64_t peak_reserved_bytes = 0;
  std::string how;  // a sentence: from what
};

struct Advice {
  std::string path;
  Completeness completeness;  // of the recording
  RunKind kind = RunKind::training;
  DeviceIndex device = 0;
  std::string device_name;
  std::uint64_t peak_allocated_bytes = 0;  // as recorded
  std::uint64_t peak_reserved_bytes = 0;
  bool has_pool = true;                    // false: CPU tensors, of which nothing is reserved
  std::optional<CompletedPeak> completed;  // savings are counted from its peak then
  std::string partial;  // a sentence, where only a part of a step is known and cannot be completed
  Growth growth;
  bool has_module_names = false;  // the code names the program's own modules
  PeakPicture baseline;
  std::vector<Remedy> remedies;  // what saves most first
  std::optional<FitPlan> fit;
  std::vector<std::string> missing;  // which recording would say more
};

Result<Advice> advise(const Store& store, const std::vector<DeviceReplay>& replays,
                      const std::vector<std::vector<PhaseSpan>>& phases, std::string path,
                      const AdviceOptions& options);

}  // namespace gpumemprof
