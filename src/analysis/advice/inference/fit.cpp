#include "analysis/advice/inference/fit.h"

#include <algorithm>

namespace gpumemprof {
namespace {

using Chosen = std::vector<const InferenceRemedy*>;

Scale together(const Scale& one, const Scale& other, bool share_precision) {
  // Two cache precisions: the smaller one wins.
  const double cache = share_precision ? std::min(one.cache, other.cache) : one.cache * other.cache;
  return {one.weights * other.weights,
          cache,
          one.activations * other.activations,
          one.inputs * other.inputs,
          one.is_cache_settled || other.is_cache_settled,
          one.is_cache_constant || other.is_cache_constant};
}

bool lays_out_cache(const InferenceRemedy& remedy) {
  return remedy.scale.is_cache_settled || remedy.scale.is_cache_constant;
}

RemedyCost cost_of(const Chosen& chosen) {
  RemedyCost cost = RemedyCost::free;
  for (const InferenceRemedy* remedy : chosen) cost = std::max(cost, remedy->cost);
  return cost;
}

// Every set of remedies that apply and can be combined, cheapest first: by cost, then by number of
// remedies.
std::vector<Chosen> sets_of(const std::vector<InferenceRemedy>& remedies) {
  std::vector<Chosen> sets = {{}};
  for (const InferenceRemedy& remedy : remedies) {
    if (!remedy.obstacle.empty()) continue;
    const std::size_t count = sets.size();
    for (std::size_t index = 0; index < count; ++index) {
      Chosen more = sets[index];
      if (!std::all_of(more.begin(), more.end(),
                       [&](const InferenceRemedy* other) { return go_together(*other, remedy); }))
        continue;
      more.push_back(&remedy);
      sets.push_back(std::move(more));
    }
  }
  sets.erase(sets.begin());
  std::stable_sort(sets.begin(), sets.end(), [](const Chosen& a, const Chosen& b) {
    const auto key = [](const Chosen& set) { return std::pair(cost_of(set), set.size()); };
    return key(a) < key(b);
  });
  return sets;
}

RemedySet described(const Chosen& chosen, const PredictedBytes& peak) {
  RemedySet set;
  for (const InferenceRemedy* remedy : chosen) {
    set.names.push_back(remedy->name);
    set.code.push_back({remedy->name, remedy->how, ""});
  }
  set.peak_allocated = peak;
  return set;
}

std::vector<PredictedBytes> predict(const InferenceRun& run, const std::vector<Chosen>& sets) {
  std::vector<Scale> scales;
  for (const Chosen& set : sets) {
    const InferenceRemedy all = combined(set);
    scales.insert(scales.end(), {all.scale, all.least, all.most});
  }
  const std::vector<std::uint64_t> peaks = run.peaks(scales);
  std::vector<PredictedBytes> bands;
  bands.reserve(sets.size());
  for (std::size_t index = 0; index < sets.size(); ++index)
    bands.push_back(inference_band(peaks[3 * index], peaks[3 * index + 1], peaks[3 * index + 2]));
  return bands;
}

bool contains(const Chosen& set, const Chosen& part) {
  return std::all_of(part.begin(), part.end(), [&](const InferenceRemedy* remedy) {
    return std::find(set.begin(), set.end(), remedy) != set.end();
  });
}

// How many times the recorded batch fits; cache, activations and inputs grow with it.
void find_largest(const InferenceRun& run, const Chosen& chosen, const InferenceLimit& limit,
                  FitPlan& plan) {
  constexpr double kStep = 1.0625;
  constexpr int kSteps = 137;  // up to 4,000 times the batch
  std::vector<double> factors;
  std::vector<Scale> scales;
  double factor = 1;
  for (int step = 0; step < kSteps; ++step) {
    factor *= kStep;
    Scale scale = combined(chosen).most;
    scale.cache *= factor;
    scale.activations *= factor;
    scale.inputs *= factor;
    factors.push_back(factor);
    scales.push_back(scale);
  }
  const std::vector<std::uint64_t> peaks = run.peaks(scales);
  double largest = 1;
  for (std::size_t index = 0; index < factors.size(); ++index) {
    if (inference_band(peaks[index], peaks[index], peaks[index]).high_bytes > limit.bytes) break;
    largest = factors[index];
  }
  for (const InferenceRemedy* remedy : chosen) largest *= remedy->batch_factor;
  plan.largest_batch_factor = largest;
  if (limit.batch)
    plan.largest_batch = static_cast<std::uint64_t>(static_cast<double>(*limit.batch) * largest);
}

}  // namespace

PredictedBytes inference_band(std::uint64_t bytes, std::uint64_t least, std::uint64_t most) {
  // Blocks round differently at other sizes.
  constexpr std::uint64_t kPart = 50;
  const std::uint64_t low = std::min(bytes, least);
  const std::uint64_t high = std::max(bytes, most);
  return {bytes, low - low / kPart, high + high / kPart};
}

InferenceRemedy combined(const std::vector<const InferenceRemedy*>& remedies) {
  InferenceRemedy all;
  for (const InferenceRemedy* remedy : remedies) {
    const bool share_precision = all.changes_precision && remedy->changes_precision;
    all.scale = together(all.scale, remedy->scale, share_precision);
    all.least = together(all.least, remedy->least, share_precision);
    all.most = together(all.most, remedy->most, share_precision);
    all.changes_precision = all.changes_precision || remedy->changes_precision;
    all.cost = std::max(all.cost, remedy->cost);
    all.batch_factor *= remedy->batch_factor;
  }
  return all;
}

bool go_together(const InferenceRemedy& one, const InferenceRemedy& other) {
  const bool share_weights = one.scale.weights < 1 && other.scale.weights < 1;
  const bool share_cache = lays_out_cache(one) && lays_out_cache(other);
  return one.name != other.name && !share_weights && !share_cache;
}

FitPlan find_inference_fit(const InferenceRun& run, const std::vector<InferenceRemedy>& remedies,
                           const InferenceLimit& limit) {
  FitPlan plan;
  plan.limit_bytes = limit.bytes;
  const PredictedBytes recorded = {limit.peak_allocated_bytes, limit.peak_allocated_bytes,
                                   limit.peak_allocated_bytes};
  if (limit.needed_bytes <= limit.bytes) {
    plan.is_found = plan.fits_already = true;
    plan.set = described({}, recorded);
    find_largest(run, {}, limit, plan);
    return plan;
  }
  const std::vector<Chosen> sets = sets_of(remedies);
  const std::vector<PredictedBytes> bands = predict(run, sets);
  constexpr std::size_t kMostFound = 4;
  std::vector<std::size_t> found;
  for (std::size_t index = 0; index < sets.size() && found.size() < kMostFound; ++index) {
    const bool is_more_than_needed = std::any_of(found.begin(), found.end(), [&](std::size_t set) {
      return contains(sets[index], sets[set]);
    });
    if (bands[index].high_bytes <= limit.bytes && !is_more_than_needed) found.push_back(index);
  }
  if (found.empty()) {
    plan.least_limit_bytes = limit.needed_bytes;
    plan.least = described({}, recorded);
    for (std::size_t index = 0; index < sets.size(); ++index) {
      if (bands[index].high_bytes >= plan.least_limit_bytes) continue;
      plan.least_limit_bytes = bands[index].high_bytes;
      plan.least = described(sets[index], bands[index]);
    }
    return plan;
  }
  plan.is_found = true;
  plan.set = described(sets[found.front()], bands[found.front()]);
  find_largest(run, sets[found.front()], limit, plan);
  for (std::size_t index = 1; index < found.size(); ++index)
    plan.alternatives.push_back(described(sets[found[index]], bands[found[index]]));
  return plan;
}

}  // namespace gpumemprof
