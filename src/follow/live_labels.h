// LiveLabels: the sets of labels of a run that is followed, as far as they are likely to be applied
// again.
//
// A set is applied again as long as its storages stay where they are; a program that makes its
// gradients anew in every step has another set in each. A file never says which it is done with, so
// those that were not applied for longest are forgotten. One that is applied after all then names
// nothing, and the code that allocated says what the memory is for.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <unordered_map>
#include <vector>

#include "event/label.h"

namespace gpumemprof {

class LiveLabels {
 public:
  // All together. The largest models have 100,000 labels that are applied again and again.
  static constexpr std::size_t kMostLabels = std::size_t{1} << 19;

  std::uint32_t add(std::span<const Label> labels);
  // Empty if it was forgotten, or never was.
  std::span<const Label> used(std::uint32_t set);
  // In labels; a set takes as much as some.
  [[nodiscard]] std::size_t size() const { return recent_.size + older_.size; }

 private:
  static constexpr std::size_t kLabelsOfSet = 4;

  struct Sets {
    std::unordered_map<std::uint32_t, std::vector<Label>> by_number;
    std::size_t size = 0;
  };
  std::span<const Label> put(std::uint32_t set, std::vector<Label> labels);

  Sets recent_;  // added or applied since the older ones were the recent ones
  Sets older_;
  std::uint32_t count_ = 0;
};

}  // namespace gpumemprof
