#include "analysis/advice/fit.h"

#include <algorithm>

#include "analysis/advice/remedies/list.h"
#include "analysis/advice/wording.h"

namespace gpumemprof {
namespace {

using Remedies = std::vector<const RemedySpec*>;

constexpr std::size_t kAlternatives = 3;
constexpr std::size_t kMostTried = 24;  // sets after the first that fits
constexpr double kUnknownSlowdownPct = 25;

// What is proposed, in the order of the search: remedies that exclude each other in one group, of
// which a set has at most one.
std::vector<Remedies> find_groups() {
  Remedies proposed;
  for (const RemedySpec& remedy : all_remedies()) {
    if (remedy.fit_order) proposed.push_back(&remedy);
  }
  std::sort(proposed.begin(), proposed.end(),
            [](const RemedySpec* a, const RemedySpec* b) { return *a->fit_order < *b->fit_order; });
  std::vector<Remedies> groups;
  for (const RemedySpec* remedy : proposed) {
    if (groups.empty() || !excludes(*groups.back().front(), *remedy)) groups.emplace_back();
    groups.back().push_back(remedy);
  }
  return groups;
}

// More than any set of remedies costs that keeps to the kinds before: what is slower comes before
// what rounds differently, and that before what trains differently.
constexpr double kCostOfKind = 10'000;

int kind_of(const RemedySpec& remedy) {
  if (remedy.cost != RemedyCost::changes_training) return static_cast<int>(remedy.cost);
  return static_cast<int>(remedy.cost) + (remedy.only_rounds ? 0 : 1);
}

double cost_of(const Advisor& advisor, const Change& change) {
  double cost = 0;
  int kind = 0;
  for (const RemedySpec* remedy : change.remedies) {
    cost += remedy->fit_cost;
    kind = std::max(kind, kind_of(*remedy));
    // Of a set, only what is known is summed.
    if (remedy->slowdown != nullptr && !remedy->slowdown(advisor.run(), change))
      cost += kUnknownSlowdownPct;
  }
  if (const std::optional<Slowdown> slowdown = find_slowdown(advisor.run(), change))
    cost += slowdown->pct;
  return cost + 0.5 * static_cast<double>(change.remedies.size()) + kCostOfKind * kind;
}

Change change_of(const Remedies& remedies) { return {remedies, std::nullopt, 1, 1}; }

// The least a set can cost: applied to one block.
double least_cost_of(const Advisor& advisor, const Remedies& remedies) {
  Change change = change_of(remedies);
  if (change.per_block() != nullptr) change.blocks = {0};
  return cost_of(advisor, change);
}

struct Candidate {
  Remedies remedies;
  double least_cost = 0;
};

std::vector<Candidate> all_sets(const Advisor& advisor) {
  std::vector<Remedies> sets = {{}};
  for (const Remedies& group : find_groups()) {
    std::vector<Remedies> more = sets;
    for (const RemedySpec* choice : group) {
      if (find_obstacle(advisor.run(), *choice)) continue;
      for (const Remedies& set : sets) {
        more.push_back(set);
        more.back().push_back(choice);
      }
    }
    sets = std::move(more);
  }
  std::vector<Candidate> candidates;
  candidates.reserve(sets.size());
  for (Remedies& set : sets) {
    const double cost = least_cost_of(advisor, set);
    candidates.push_back({std::move(set), cost});
  }
  std::stable_sort(
      candidates.begin(), candidates.end(),
      [](const Candidate& a, const Candidate& b) { return a.least_cost < b.least_cost; });
  return candidates;
}

// The search over sets, cheapest first.
class Search {
 public:
  Search(const Advisor& advisor, std::uint64_t limit_bytes)
      : advisor_(advisor), limit_bytes_(limit_bytes) {}

  struct Found {
    Change change;
    double cost = 0;
  };

  // The set that takes least of all that were tried.
  [[nodiscard]] const Change& least() const { return least_; }

  // What fits, cheapest first: as many as are shown.
  std::vector<Found> run() {
    std::size_t tried = 0;
    for (const Candidate& candidate : all_sets(advisor_)) {
      if (!found_.empty() && ++tried > kMostTried) break;
      if (found_.size() > kAlternatives && candidate.least_cost >= found_.back().cost) break;
      if (is_beaten(candidate.remedies, candidate.least_cost)) continue;
      const std::optional<Change> change = fitting(candidate.remedies);
      if (!change) continue;
      const double cost = cost_of(advisor_, *change);
      if (is_beaten(candidate.remedies, cost)) continue;
      found_.push_back({*change, cost});
      std::stable_sort(found_.begin(), found_.end(),
                       [](const Found& a, const Found& b) { return a.cost < b.cost; });
      if (found_.size() > kAlternatives + 1) found_.pop_back();
      if (candidate.remedies.empty()) break;  // nothing has to change
    }
    return std::move(found_);
  }

 private:
  // By a set that achieves with fewer remedies what this one does with more.
  [[nodiscard]] bool is_beaten(const Remedies& remedies, double cost) const {
    return std::any_of(found_.begin(), found_.end(), [&](const Found& other) {
      const auto is_here = [&](const RemedySpec* remedy) {
        return std::find(remedies.begin(), remedies.end(), remedy) != remedies.end();
      };
      return other.cost <= cost &&
             std::all_of(other.change.remedies.begin(), other.change.remedies.end(), is_here);
    });
  }

  // The set, applied to as few blocks as the limit requires; none if it does not fit at all.
  [[nodiscard]] std::optional<Change> fitting(const Remedies& remedies) {
    Change whole = change_of(remedies);
    if (found_.empty()) note_least(whole);
    if (!advisor_.fits(whole, limit_bytes_)) return std::nullopt;
    if (whole.per_block() == nullptr) return whole;
    std::vector<std::uint32_t> as_they_run = advisor_.run().blocks_by_saving();
    const Change by_saving = fewest_blocks(whole, as_they_run);
    std::sort(as_they_run.begin(), as_they_run.end());
    const Change by_place = fewest_blocks(whole, as_they_run);
    return cost_of(advisor_, by_saving) < cost_of(advisor_, by_place) ? by_saving : by_place;
  }

  void note_least(const Change& change) {
    const std::uint64_t bytes = advisor_.needed_bytes(change);
    if (bytes >= least_bytes_) return;
    least_bytes_ = bytes;
    least_ = change;
  }

  [[nodiscard]] Change fewest_blocks(const Change& whole,
                                     const std::vector<std::uint32_t>& order) const {
    const auto first = [&](std::size_t count) {
      Change change = whole;
      change.blocks.emplace(order.begin(), order.begin() + static_cast<std::ptrdiff_t>(count));
      std::sort(change.blocks->begin(), change.blocks->end());
      return change;
    };
    std::size_t low = 0;  // does not fit, or no block
    std::size_t high = order.size();
    while (high - low > 1) {
      const std::size_t middle = (low + high) / 2;
      (advisor_.fits(first(middle), limit_bytes_) ? high : low) = middle;
    }
    return first(high);
  }

  const Advisor& advisor_;
  std::uint64_t limit_bytes_;
  std::vector<Found> found_;
  Change least_;
  std::uint64_t least_bytes_ = kUnknownBytes;
};

// The largest factor that still fits; `set` puts it into the change.
template <typename Set>
double largest_factor(const Advisor& advisor, Change change, std::uint64_t limit_bytes, Set&& set) {
  const auto fits = [&](double factor) {
    set(change, factor);
    return advisor.fits(change, limit_bytes);
  };
  double low = 1;
  double high = 2;
  constexpr double kMost = 4096;
  while (high < kMost && fits(high)) {
    low = high;
    high *= 2;
  }
  constexpr int kHalvings = 5;
  for (int turn = 0; turn < kHalvings; ++turn) {
    const double middle = (low + high) / 2;
    (fits(middle) ? low : high) = middle;
  }
  return low;
}

CheckpointedBlocks blocks_of(const AdvisedRun& run, const Change& change) {
  CheckpointedBlocks blocks;
  blocks.of = static_cast<std::uint32_t>(run.blocks_per_pass());
  if (change.blocks) {
    blocks.which = *change.blocks;
  } else {
    for (std::uint32_t ordinal = 0; ordinal < blocks.of; ++ordinal) blocks.which.push_back(ordinal);
  }
  const std::vector<std::string>& modules = run.block_modules();
  if (modules.size() == blocks.of) {
    for (const std::uint32_t ordinal : blocks.which) blocks.modules.push_back(modules[ordinal]);
  }
  blocks.how = code_of(run, change, *change.per_block());
  return blocks;
}

std::optional<RemedySet> described(const Advisor& advisor, const Change& change,
                                   std::uint64_t limit_bytes) {
  const Result<Prediction> prediction = advisor.predict(change, limit_bytes);
  if (!prediction) return std::nullopt;
  RemedySet set;
  for (const RemedySpec* remedy : change.remedies) {
    set.names.emplace_back(remedy->name);
    set.code.push_back({std::string(remedy->name), code_of(advisor.run(), change, *remedy),
                        std::string(remedy->how_trainer)});
  }
  set.peak_allocated = prediction.value().allocated;
  set.peak_reserved = prediction.value().reserved;
  if (const std::optional<Slowdown> slowdown = find_slowdown(advisor.run(), change)) {
    set.slowdown_pct = slowdown->pct;
    set.is_slowdown_measured = slowdown->is_measured;
  }
  if (change.per_block() != nullptr) set.checkpointed = blocks_of(advisor.run(), change);
  return set;
}

void find_largest(const Advisor& advisor, const Change& change,
                  std::optional<std::uint64_t> sequence, FitPlan& plan) {
  const AdvisedRun& run = advisor.run();
  if (run.facts().passes().empty()) return;
  const auto times = [](std::uint64_t count, double factor) {
    return static_cast<std::uint64_t>(static_cast<double>(count) * factor);
  };
  plan.largest_batch_factor =
      largest_factor(advisor, change, plan.limit_bytes,
                     [](Change& larger, double factor) { larger.batch_factor = factor; });
  if (run.batch()) plan.largest_batch = times(*run.batch(), plan.largest_batch_factor);
  const std::vector<RemedySpec>& all = all_remedies();
  const bool can_lengthen = std::any_of(all.begin(), all.end(), [&](const RemedySpec& remedy) {
    return remedy.sequence_factor > 1 && !find_obstacle(run, remedy);
  });
  if (!can_lengthen) return;
  plan.largest_sequence_factor =
      largest_factor(advisor, change, plan.limit_bytes,
                     [](Change& longer, double factor) { longer.sequence_factor = factor; });
  if (sequence) plan.largest_sequence = times(*sequence, *plan.largest_sequence_factor);
}

// The lowest limit that a change survives, to within 1/128.
std::uint64_t lowest_limit(const Advisor& advisor, const Change& change) {
  std::uint64_t low = advisor.needed_bytes(change);  // anything lower does not fit
  std::uint64_t high = low;
  while (!advisor.fits(change, high)) {
    low = high;
    high += high / 4 + 1;
    if (high > kUnknownBytes / 2) return high;
  }
  while (high - low > high / 128) {
    const std::uint64_t middle = low + (high - low) / 2;
    (advisor.fits(change, middle) ? high : low) = middle;
  }
  return high;
}

}  // namespace

FitPlan find_fit(const Advisor& advisor, std::uint64_t limit_bytes,
                 std::optional<std::uint64_t> sequence) {
  FitPlan plan;
  plan.limit_bytes = limit_bytes;
  if (advisor.run().is_partial()) {
    plan.refusal = why_partial(advisor);
    return plan;
  }
  Search search(advisor, limit_bytes);
  for (const Search::Found& found : search.run()) {
    std::optional<RemedySet> set = described(advisor, found.change, limit_bytes);
    if (!set) continue;
    if (plan.is_found) {
      plan.alternatives.push_back(std::move(*set));
      continue;
    }
    plan.is_found = true;
    plan.fits_already = found.change.remedies.empty();
    plan.set = std::move(*set);
    find_largest(advisor, found.change, sequence, plan);
  }
  if (!plan.is_found) {
    plan.least_limit_bytes = lowest_limit(advisor, search.least());
    plan.least = described(advisor, search.least(), plan.least_limit_bytes);
  }
  return plan;
}

}  // namespace gpumemprof
