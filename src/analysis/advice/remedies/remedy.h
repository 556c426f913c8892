// RemedySpec: everything that is known about one remedy.
//
// Each remedy is one function that returns its spec, in a file of its own in a folder beside this
// header (remedies that differ only in a number share a file), and one line in list.h. Prediction,
// --fit, the sentences and the Python package go through that list; none of them knows a remedy by
// name.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "analysis/advice/advice.h"
#include "analysis/advice/advised_run.h"
#include "analysis/advice/change.h"
#include "analysis/advice/remedies/rewrite.h"
#include "event/allocator_settings.h"

namespace gpumemprof {

class Advisor;
struct Prediction;

// What of a program a remedy changes. Two remedies that change the same thing cannot be combined.
// Rewrites are applied in this order, so that each sees what the others did.
enum class Aspect : std::uint8_t {
  gradients,
  precision,
  loss,
  activations,
  optimizer,
  batch,
  sequence,
  cache,
  allocator,
};
inline constexpr std::size_t kAspectCount = 9;

constexpr std::string_view aspect_name(Aspect aspect) {
  constexpr std::array<std::string_view, kAspectCount> kNames = {
      "gradients", "precision", "loss",  "activations", "optimizer",
      "batch",     "sequence",  "cache", "allocator"};
  return kNames[static_cast<std::size_t>(aspect)];
}

// What a recording must show before a remedy can be predicted.
struct RemedyNeeds {
  bool passes = true;
  bool stacks = false;
  bool optimizer_steps = false;
  bool parameters = false;
  bool pool = false;  // a caching allocator: not on the CPU
};

// The least that can remain of a step's own memory, and of the weights: lower bounds that hold
// whatever the unrecorded part of a step does.
struct LeastShares {
  double step = 1;
  double weights = 1;
  // False: optimizer memory and gradients may drop to nothing.
  bool keeps_optimizer = true;
};

struct Slowdown {
  double pct = 0;
  bool is_measured = false;  // from the recorded phases; else a rule of thumb
};

struct RemedySpec {
  // --- What users read ---
  std::string_view name = {};   // "adam_8bit"
  std::string_view title = {};  // "Adam with 8-bit state"
  RemedyCost cost = RemedyCost::free;
  std::string_view how = {};          // code for plain PyTorch
  std::string_view how_trainer = {};  // for transformers' Trainer; empty: it has no option for it

  // --- How it combines ---
  Aspect aspect = Aspect::allocator;
  RemedyNeeds needs = {};
  double batch_factor = 1;     // samples that a pass computes, relative to those recorded
  double sequence_factor = 1;  // likewise tokens
  bool is_per_block = false;   // it may be applied to some of the repeated blocks: Change::blocks

  // --- How certain it is ---
  // Half the width of the band, as a share of the peak. Bands were chosen by hand, wider than the
  // errors found on the recorded pairs in docs/accuracy.md and never below 1 %: a judgement, not a
  // derivation.
  double band = 0.01;
  // It depends on more than the allocator's rules: shapes and precisions that are not recorded.
  bool is_estimated = false;
  LeastShares least = {};

  // --- In --fit ---
  // What it costs besides time, among remedies of the same kind.
  double fit_cost = 0;
  // Of what changes training: only the rounding of what a step computes.
  bool only_rounds = false;
  // Its place in the search; of two remedies with the same aspect, the preferred one comes first.
  // None: never proposed.
  std::optional<int> fit_order = std::nullopt;

  // `advise --verify` can apply it: python/gpumemprof/verify says how.
  bool is_verifiable = false;

  // --- Functions; nullptr where the remedy does not need one ---
  // A sentence if it cannot be predicted, or would by its nature change nothing. `needs` and
  // batches that cannot be split are checked before.
  std::optional<std::string> (*obstacle)(const AdvisedRun&) = nullptr;
  // Changes the timeline as the changed program would. Batches and sequences are scaled afterwards.
  void (*rewrite)(const AdvisedRun&, const Change&, Rewrite&) = nullptr;
  void (*change_settings)(AllocatorSettings&) = nullptr;
  // The code instead of `how`, with the names of the program's own modules.
  std::string (*code)(const AdvisedRun&, const Change&) = nullptr;
  // What it adds to a step's time; none if there is no evidence.
  std::optional<Slowdown> (*slowdown)(const AdvisedRun&, const Change&) = nullptr;
  // A sentence before the peaks are compared, with a space at its end.
  std::string (*introduction)(const AdvisedRun&) = nullptr;
  // Instead of a comparison of the peaks, where the remedy is alone.
  std::string (*explanation)(const Advisor&, const Prediction&) = nullptr;
};

}  // namespace gpumemprof
