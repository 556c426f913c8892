// Advice: what each remedy would save in this particular run, and what it costs.
//
// A remedy rewrites the recorded run as the changed program would run, and the simulated allocator
// serves the rewritten run. Where the recording lacks something a rewrite needs, the prediction has
// a wider band. A predicted peak is never given without its band.
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

// Another recording of the same program, with a different batch size or sequence length.
struct OtherRun {
  const Store* store = nullptr;
  const std::vector<std::vector<PhaseSpan>>* phases = nullptr;
};

struct AdviceOptions {
  std::optional<DeviceIndex> device;       // none: the one with the highest peak
  std::optional<std::uint64_t> fit_bytes;  // find the cheapest way to stay under this limit
  std::optional<std::uint64_t> batch;      // samples in a recorded batch: not in the recording
  std::optional<std::uint64_t> sequence;   // tokens in a recorded sequence: likewise
  // Remedies to predict together, by their names: {"autocast_bf16", "micro_batch_x0.5"}.
  std::vector<std::vector<std::string>> together;
  std::optional<OtherRun> other;  // sharpens predictions about batches or sequences
  std::function<void(std::size_t done, std::size_t total)> progress;  // may be empty
  // Nobody waits for it any more: it ends with an Error; may be empty.
  std::function<bool()> is_given_up;
};

struct PredictedBytes {
  std::uint64_t bytes = 0;
  std::uint64_t low_bytes = 0;
  std::uint64_t high_bytes = 0;
};

// A moment of most allocated bytes: when it occurs and what holds the memory.
struct PeakPicture {
  std::uint64_t bytes = 0;
  Phase phase = Phase::other;
  SourceBytes by_source{};
};

// What a remedy costs its user.
enum class RemedyCost : std::uint8_t {
  free,              // the same results, no slower
  slower,            // the same results, but slower
  changes_training,  // different numbers: precision, optimizer, batch, sequences; inference too
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
  // None if it cannot be predicted from this recording, or does not apply: `why` says which.
  std::optional<PredictedBytes> peak_allocated;
  std::optional<PredictedBytes> peak_reserved;
  // Instead of a prediction, where only part of a step is known: it takes at least this much.
  std::optional<std::uint64_t> at_least_bytes;
  Provenance provenance = Provenance::simulated;
  std::int64_t saving_bytes = 0;  // of allocated bytes; negative: it takes more
  std::optional<double> slowdown_pct;
  bool is_slowdown_measured = false;  // from the recorded phases; else a rule of thumb
  std::string why;
  std::string how;          // for plain PyTorch
  std::string how_trainer;  // for transformers' Trainer; empty: it has no option for it
  PeakPicture after;
};

// Which blocks of a pass are checkpointed.
struct CheckpointedBlocks {
  std::uint32_t of = 0;              // this many blocks run in sequence
  std::vector<std::uint32_t> which;  // in the order they run, from 0
  // The module of each, "transformer.h.0"; empty if the recording does not distinguish instances.
  std::vector<std::string> modules;
  std::string how;  // the code that checkpoints these
};

// The code of one remedy of a set.
struct RemedyCode {
  std::string name;
  std::string how;
  std::string how_trainer;  // empty: Trainer has no option for it
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
  std::string refusal;                  // a sentence, if the recording cannot show what fits
  std::optional<RemedySet> least;       // if nothing fits: the set that takes the least memory
  std::uint64_t least_limit_bytes = 0;  // and the lowest limit it survives
  RemedySet set;                        // the cheapest
  std::vector<RemedySet> alternatives;  // others that fit, cheapest first
  // How many times the recorded batch fits then; below 1 if micro-batches were made smaller.
  double largest_batch_factor = 1;
  std::optional<std::uint64_t> largest_batch;  // in samples, where the recorded batch is known
  // The same for sequences, at the recorded batch; none if the recording has no sequences.
  std::optional<double> largest_sequence_factor;
  std::optional<std::uint64_t> largest_sequence;  // in tokens, where the recorded length is known
};

// A run that ran out of memory, continued as far as its own data allows.
struct CompletedPeak {
  std::uint64_t peak_allocated_bytes = 0;
  std::uint64_t peak_reserved_bytes = 0;
  std::string how;  // a sentence: what it was derived from
};

struct Advice {
  std::string path;
  Completeness completeness;        // of the recording
  RunKind kind = RunKind::unknown;  // unknown: advised as training
  DeviceIndex device = 0;
  std::string device_name;
  std::uint64_t peak_allocated_bytes = 0;  // as recorded
  std::uint64_t peak_reserved_bytes = 0;
  bool has_pool = true;                    // false: CPU tensors, for which nothing is reserved
  std::optional<CompletedPeak> completed;  // if set, savings are relative to its peak
  std::string partial;  // a sentence, if only part of a step is known and it cannot be completed
  Growth growth;
  bool has_module_names = false;  // the code names the program's own modules
  PeakPicture baseline;
  std::vector<Remedy> remedies;  // largest saving first
  std::optional<FitPlan> fit;
  std::vector<std::string> missing;  // which recording would say more
};

// A remedy as it is known without a run.
struct RemedyEntry {
  std::string name;
  std::string title;
  RemedyCost cost = RemedyCost::free;
  RunKind kind = RunKind::training;
  std::string family;  // of two with the same family, only one can be applied; empty: inference
  bool needs_pool = false;     // it changes a caching allocator, which CPU memory does not have
  bool is_verifiable = false;  // `advise --verify` can apply it
};
std::vector<RemedyEntry> list_remedies();

// Whole predictions before lower bounds, the largest saving first.
void sort_remedies(std::vector<Remedy>& remedies);

Result<Advice> advise(const Store& store, const std::vector<DeviceReplay>& replays,
                      const std::vector<std::vector<PhaseSpan>>& phases, std::string path,
                      const AdviceOptions& options);

}  // namespace gpumemprof
