// SizeCounts: how many parameters and gradients of each size there are. Gradients have the sizes of
// their parameters, and so does what most optimizers keep for them.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "base/flat_map.h"

namespace gpumemprof {

struct SizeInfo {
  static constexpr std::uint32_t kStatesPerParameter = 2;  // Adam; anything beyond may be a copy

  std::uint32_t made = 0;            // parameters, by the code that allocated them
  std::uint32_t possible = 0;        // other blocks that may be parameters
  std::uint32_t gradients = 0;       // the most live at once
  std::uint32_t states_born = 0;     // optimizer state allocated while recording
  std::uint32_t kept_gradients = 0;  // survivors of a backward that outlive the next
  bool has_dropped_gradients = false;
  std::vector<std::uint32_t> parameter_deaths;  // events before the end of the work

  // No gradient of this size is zeroed, though others may be: no optimizer uses them.
  [[nodiscard]] bool keeps_gradients() const {
    return kept_gradients > 0 && !has_dropped_gradients && kept_gradients <= made + possible;
  }

  // `generation` is the same for gradients that are live together.
  void count_gradient(std::size_t generation) {
    if (generation != generation_) now_ = 0;
    generation_ = generation;
    gradients = std::max(gradients, ++now_);
  }
  // Whether one more block of this size is a parameter: there are more gradients than parameters,
  // or an optimizer keeps state for what no module owns (if no labels would say so).
  bool takes_parameter(bool by_states = false) {
    if (made + taken_ >= std::max(gradients, by_states && made == 0 ? states_born : 0))
      return false;
    ++taken_;
    return true;
  }
  // Whether a block allocated at `birth` replaced a parameter freed before `end`. Queried in order
  // of birth, so that each death is passed once.
  bool takes_over(std::uint32_t birth, std::uint32_t end) {
    if (!is_sorted_) std::sort(parameter_deaths.begin(), parameter_deaths.end());
    is_sorted_ = true;
    while (next_death_ < parameter_deaths.size() && parameter_deaths[next_death_] <= birth)
      ++next_death_;
    if (next_death_ == parameter_deaths.size() || parameter_deaths[next_death_] >= end)
      return false;
    ++next_death_;
    return true;
  }
  // Whether one more block from before the recording is optimizer state.
  bool takes_state() {
    if (states_born > 0 || states_ >= kStatesPerParameter * gradients) return false;
    ++states_;
    return true;
  }

 private:
  std::size_t generation_ = static_cast<std::size_t>(-1);
  std::uint32_t now_ = 0;
  std::uint32_t taken_ = 0;
  std::uint32_t states_ = 0;
  bool is_sorted_ = false;      // parameter_deaths
  std::size_t next_death_ = 0;  // of parameter_deaths
};

class SizeCounts {
 public:
  SizeInfo& at(std::uint64_t size_bytes) {
    const auto fresh = static_cast<std::uint32_t>(infos_.size());
    // The map cannot hold the all-ones key.
    const std::uint32_t row = rows_.find_or_insert(size_bytes & ~(std::uint64_t{1} << 63U), fresh);
    if (row == fresh) infos_.emplace_back();
    return infos_[row];
  }
  SizeInfo* find(std::uint64_t size_bytes) {
    const std::uint32_t* row = rows_.find(size_bytes & ~(std::uint64_t{1} << 63U));
    return row == nullptr ? nullptr : &infos_[*row];
  }
  // Gradients in blocks of their own for at least one size of parameter.
  [[nodiscard]] bool has_gradients() const {
    return std::any_of(infos_.begin(), infos_.end(),
                       [](const SizeInfo& info) { return info.gradients > 0; });
  }

 private:
  FlatMap<std::uint32_t> rows_;
  std::vector<SizeInfo> infos_;
};

}  // namespace gpumemprof
