#include "analysis/advice/inference/inference_run.h"

#include <algorithm>
#include <string_view>

namespace gpumemprof {
namespace {

constexpr std::uint32_t kNoRow = AllocationId::kNone;

Precision precision_of(const Store& store) {
  Precision precision;
  for (const auto& [type, bytes] : store.facts().process().parameter_bytes) {
    if (type == "float32") precision.full_bytes = bytes;
    if (type == "float16" || type == "bfloat16")
      precision.half_bytes = precision.half_bytes.value_or(0) + bytes;
  }
  return precision;
}

}  // namespace

// Live bytes at a moment, grouped by what a remedy scales.
struct InferenceRun::Held {
  double weights = 0;
  double cache = 0;
  double activations = 0;
  double inputs = 0;
  double rest = 0;
};

// Calls `visit` with what is held after each event.
template <typename Visit>
void InferenceRun::follow(const Visit& visit) const {
  const AllocationColumns& rows = record_.allocations;
  Held held;
  for (std::uint32_t row = 0; row < rows.size(); ++row) {
    if (rows.alloc_event[row] == kNoEvent) add(row, 1, held);
  }
  visit(held);
  for (std::size_t event = 0; event < record_.events.size(); ++event) {
    if (birth_row_[event] == kNoRow && first_death_[event] == kNoRow) continue;
    if (birth_row_[event] != kNoRow) add(birth_row_[event], 1, held);
    for (std::uint32_t row = first_death_[event]; row != kNoRow; row = next_death_[row])
      add(row, -1, held);
    visit(held);
  }
}

// An event allocates one block; it may free several if the history is damaged.
void InferenceRun::sort_lifetimes() {
  const AllocationColumns& rows = record_.allocations;
  const std::size_t events = record_.events.size();
  birth_row_.assign(events, kNoRow);
  first_death_.assign(events, kNoRow);
  next_death_.assign(rows.size(), kNoRow);
  for (std::uint32_t row = 0; row < rows.size(); ++row) {
    const std::uint32_t birth = rows.alloc_event[row];
    const std::uint32_t death = rows.free_requested_event[row];
    if (birth < events) birth_row_[birth] = row;
    const bool is_seen = birth == kNoEvent || (birth < events && birth_row_[birth] == row);
    if (!is_seen || death >= events) continue;
    next_death_[row] = first_death_[death];
    first_death_[death] = row;
  }
}

void InferenceRun::add(std::uint32_t row, double sign, Held& held) const {
  const auto block = static_cast<double>(record_.allocations.size_bytes[row]);
  const auto used = std::min(block, static_cast<double>(record_.allocations.requested_bytes[row]));
  switch (record_.labels.source[row]) {
    case MemorySource::parameters:
      held.weights += sign * used;
      break;
    case MemorySource::kv_cache:
      held.cache += sign * used;
      break;
    case MemorySource::activations:
    case MemorySource::temporaries:
      held.activations += sign * used;
      break;
    case MemorySource::inputs:
      held.inputs += sign * used;
      break;
    default:
      held.rest += sign * used;
  }
  held.rest += sign * (block - used);
}

InferenceRun::InferenceRun(const Store& store, const DeviceRecord& record)
    : record_(record), precision_(precision_of(store)) {
  sort_lifetimes();
  find_settled_cache();
}

void InferenceRun::find_settled_cache() {
  double floor = 0;  // the most that stayed live when some of it was freed
  double last = 0;
  std::size_t growths = 0;  // beyond the previous maximum, after some of it was freed
  bool has_dropped = false;
  follow([&](const Held& held) {
    most_weights_ = std::max(most_weights_, held.weights);
    if (held.cache < last) floor = std::max(floor, held.cache);
    has_dropped = has_dropped || held.cache < last;
    if (held.cache > most_cache_ && has_dropped) ++growths;
    if (held.cache > most_cache_) has_dropped = false;
    most_cache_ = std::max(most_cache_, held.cache);
    last = held.cache;
  });
  constexpr std::size_t kFew = 2;
  is_cache_copied_ = growths > kFew;
  settled_cache_ = is_cache_copied_ ? floor : most_cache_;
}

double InferenceRun::scaled(const Held& held, const Scale& scale) const {
  double cache = held.cache;
  if (scale.is_cache_settled) cache = std::min(cache, settled_cache_);
  if (scale.is_cache_constant) cache = settled_cache_;
  return held.weights * scale.weights + cache * scale.cache + held.activations * scale.activations +
         held.inputs * scale.inputs + held.rest;
}

std::vector<std::uint64_t> InferenceRun::peaks(const std::vector<Scale>& scales) const {
  std::vector<double> most(scales.size(), 0);
  follow([&](const Held& held) {
    for (std::size_t index = 0; index < scales.size(); ++index)
      most[index] = std::max(most[index], scaled(held, scales[index]));
  });
  std::vector<std::uint64_t> peaks;
  peaks.reserve(most.size());
  for (const double bytes : most) peaks.push_back(static_cast<std::uint64_t>(bytes));
  return peaks;
}

}  // namespace gpumemprof
