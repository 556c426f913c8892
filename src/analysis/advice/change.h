// Change: remedies applied together, and what follows from them whatever they are.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace gpumemprof {

class AdvisedRun;
struct RemedySpec;
struct Rewrite;
struct Slowdown;

// What is done to a run: combined remedies, and other batch sizes and sequence lengths.
struct Change {
  std::vector<const RemedySpec*> remedies;
  // Which of each pass's blocks a remedy is applied to, by the order they run in, sorted; none:
  // all. Only for remedies that are per block.
  std::optional<std::vector<std::uint32_t>> blocks;
  double batch_factor = 1;
  double sequence_factor = 1;

  // The remedy of these that is applied per block; nullptr if there is none.
  [[nodiscard]] const RemedySpec* per_block() const;
  // Whether a remedy that is per block applies to this one.
  [[nodiscard]] bool has_block(std::uint32_t ordinal) const;
};

// Whether both change the same thing, so that they cannot be combined.
bool excludes(const RemedySpec& one, const RemedySpec& other);

// A sentence if the remedy cannot be predicted or would by its nature change nothing.
std::optional<std::string> find_obstacle(const AdvisedRun& run, const RemedySpec& remedy);

// Rewrites the run as the program would run with all remedies.
void apply(const AdvisedRun& run, const Change& change, Rewrite& rewrite);

// The code of one remedy of a change; for remedies that are per block, for the change's blocks.
std::string code_of(const AdvisedRun& run, const Change& change, const RemedySpec& remedy);

// What the change adds to a step's time: the sum of what is known; none if nothing is.
std::optional<Slowdown> find_slowdown(const AdvisedRun& run, const Change& change);

// Half the width of the band, as a share of the peak.
double band_of(const AdvisedRun& run, const Change& change);

}  // namespace gpumemprof
