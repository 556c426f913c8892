#include "analysis/advice/fit.h"

#include <algorithm>

namespace gpumemprof {
namespace {

using Remedies = std::vector<RemedyId>;

// At most one of each family.
const std::vector<Remedies>& families() {
  static const std::vector<Remedies> kFamilies = {
      {RemedyId::expandable_segments},
      {RemedyId::fused, RemedyId::adam_8bit, RemedyId::adafactor, RemedyId::sgd},
      {RemedyId::checkpointing},
      {RemedyId::autocast_bf16, RemedyId::pure_bf16},
      {RemedyId::micro_batch_x0_5, RemedyId::micro_batch_x0_25, RemedyId::micro_batch_x0_125},
  };
  return kFamilies;
}

constexpr double kUnknownSlowdownPct = 25;  // where the recording has no times

double cost_of(const Advisor& advisor, const Remedies& remedies) {
  double cost = 0;
  for (const RemedyId id : remedies) {
    cost += facts_of(id).cost;
    if (id == RemedyId::checkpointing)
      cost += advisor.slowdown_pct(id).value_or(kUnknownSlowdownPct);
  }
  return cost + 0.5 * static_cast<double>(remedies.size());
}

std::vector<Remedies> all_sets(const Advisor& advisor) {
  std::vector<Remedies> sets = {{}};
  for (const Remedies& family : families()) {
    std::vector<Remedies> more = sets;
    for (const RemedyId choice : family) {
      if (advisor.obstacle(choice)) continue;
      for (const Remedies& set : sets) {
        more.push_back(set);
        more.back().push_back(choice);
      }
    }
    sets = std::move(more);
  }
  std::stable_sort(sets.begin(), sets.end(), [&](const Remedies& a, const Remedies& b) {
    return cost_of(advisor, a) < cost_of(advisor, b);
  });
  return sets;
}

double largest_batch(const Advisor& advisor, const Remedies& remedies, std::uint64_t limit_bytes) {
  double low = 1;
  double high = 2;
  constexpr double kMost = 4096;
  while (high < kMost && advisor.fits(remedies, high, limit_bytes)) {
    low = high;
    high *= 2;
  }
  constexpr int kHalvings = 5;
  for (int turn = 0; turn < kHalvings; ++turn) {
    const double middle = (low + high) / 2;
    (advisor.fits(remedies, middle, limit_bytes) ? low : high) = middle;
  }
  return low;
}

}  // namespace

FitPlan find_fit(const Advisor& advisor, std::uint64_t limit_bytes) {
  FitPlan plan;
  plan.limit_bytes = limit_bytes;
  for (const Remedies& set : all_sets(advisor)) {
    if (!advisor.fits(set, 1, limit_bytes)) continue;
    const Result<Prediction> prediction = advisor.predict(set, limit_bytes);
    if (!prediction) continue;
    plan.is_found = true;
    plan.fits_already = set.empty();
    for (const RemedyId id : set) {
      plan.names.emplace_back(facts_of(id).name);
      if (const std::optional<double> slowdown = advisor.slowdown_pct(id))
        plan.slowdown_pct = plan.slowdown_pct.value_or(0) + *slowdown;
    }
    plan.peak_allocated = prediction.value().allocated;
    plan.peak_reserved = prediction.value().reserved;
    if (!advisor.facts().passes().empty())
      plan.largest_batch_factor = largest_batch(advisor, set, limit_bytes);
    if (advisor.batch())
      plan.largest_batch = static_cast<std::uint64_t>(static_cast<double>(*advisor.batch()) *
                                                      plan.largest_batch_factor);
    break;
  }
  return plan;
}

}  // namespace gpumemprof
