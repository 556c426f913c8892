// InferenceRun: a recorded run without backward, and its peak if some of its sources were smaller.
//
// Owns indexes of the lifetimes; the record must outlive it. Bytes throughout, as doubles where
// they are scaled.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "store/store.h"

namespace gpumemprof {

// The share of each source that remains under a remedy.
struct Scale {
  double weights = 1;
  double cache = 1;
  double activations = 1;
  double inputs = 1;
  bool is_cache_settled = false;   // no copy of the cache next to the one that replaces it
  bool is_cache_constant = false;  // all of it is live from the start
};

// How much of the parameters is in which precision, if the recording says so.
struct Precision {
  std::optional<std::uint64_t> full_bytes;
  std::optional<std::uint64_t> half_bytes;
  [[nodiscard]] bool is_known() const { return full_bytes || half_bytes; }
  // The share of the weights that take four bytes each; all of them if nothing says otherwise.
  [[nodiscard]] double full_share() const {
    const auto full = static_cast<double>(full_bytes.value_or(0));
    const auto half = static_cast<double>(half_bytes.value_or(0));
    return full + half == 0 ? 1.0 : full / (full + half);
  }
  // Current bytes per weight, on average.
  [[nodiscard]] double weight_bytes() const { return 2 + 2 * full_share(); }
  // The least a weight may take now: if the precision is not known, it may be half already.
  [[nodiscard]] double least_weight_bytes() const { return is_known() ? weight_bytes() : 2; }
  // A sentence for figures that assume fp32; empty if the precision is known.
  [[nodiscard]] std::string caveat() const {
    return is_known() ? "" : " This assumes fp32 weights: the recording does not state their type.";
  }
};

class InferenceRun {
 public:
  InferenceRun(const Store& store, const DeviceRecord& record);

  // The peak under each scale, in one pass over the run.
  [[nodiscard]] std::vector<std::uint64_t> peaks(const std::vector<Scale>& scales) const;

  [[nodiscard]] const Precision& precision() const { return precision_; }
  [[nodiscard]] bool has_weights() const { return most_weights_ > 0; }
  [[nodiscard]] bool has_cache() const { return most_cache_ > 0; }
  // The cache grows by copying, so old and new are live at once.
  [[nodiscard]] bool is_cache_copied() const { return is_cache_copied_; }

 private:
  struct Held;
  [[nodiscard]] double scaled(const Held& held, const Scale& scale) const;
  template <typename Visit>
  void follow(const Visit& visit) const;
  void sort_lifetimes();
  void find_settled_cache();
  void add(std::uint32_t row, double sign, Held& held) const;

  const DeviceRecord& record_;
  Precision precision_;
  std::vector<std::uint32_t> birth_row_;    // by event
  std::vector<std::uint32_t> first_death_;  // by event: a row that is freed there
  std::vector<std::uint32_t> next_death_;   // by row: another one freed at the same event
  double most_weights_ = 0;
  double most_cache_ = 0;
  double settled_cache_ = 0;  // without the copies made while it grows
  bool is_cache_copied_ = false;
};

}  // namespace gpumemprof
