#include "follow/live_labels.h"

#include <utility>

namespace gpumemprof {

std::uint32_t LiveLabels::add(std::span<const Label> labels) {
  put(count_, {labels.begin(), labels.end()});
  return count_++;
}

std::span<const Label> LiveLabels::used(std::uint32_t set) {
  if (const auto found = recent_.by_number.find(set); found != recent_.by_number.end())
    return found->second;
  const auto found = older_.by_number.find(set);
  if (found == older_.by_number.end()) return {};
  std::vector<Label> labels = std::move(found->second);
  older_.by_number.erase(found);
  older_.size -= labels.size() + kLabelsOfSet;
  return put(set, std::move(labels));
}

std::span<const Label> LiveLabels::put(std::uint32_t set, std::vector<Label> labels) {
  const std::size_t size = labels.size() + kLabelsOfSet;
  if (recent_.size + size > kMostLabels / 2) older_ = std::exchange(recent_, Sets());
  recent_.size += size;
  return recent_.by_number.insert_or_assign(set, std::move(labels)).first->second;
}

}  // namespace gpumemprof
