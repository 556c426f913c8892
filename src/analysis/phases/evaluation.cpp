#include "analysis/phases/evaluation.h"

#include <algorithm>
#include <unordered_map>
#include <unordered_set>

#include "analysis/phases/run_kind.h"

namespace gpumemprof {
namespace {

class EvaluationFinder {
 public:
  EvaluationFinder(const Store& store, const DeviceRecord& record,
                   const std::vector<CodeKind>& kinds, const std::vector<Region>& regions)
      : rows_(record.allocations),
        regions_(regions),
        calls_(find_forward_calls(store, record, kinds)),
        is_needed_(calls_.size(), false),
        first_needed_(regions.size(), kNoEvent),
        events_(record.events.size()) {}

  std::vector<Region> run() {
    find_used_by_backward();
    find_used_by_forward();
    for (std::size_t call = 0; call < calls_.size(); ++call) {
      if (is_needed_[call]) training_sites_.insert(calls_[call].site.index);
    }
    std::vector<Region> found;
    bool has_trained = false;
    for (std::size_t index = 0; index < regions_.size(); ++index) {
      const Region& region = regions_[index];
      has_trained = has_trained || region.phase == Phase::backward;
      if (region.phase != Phase::forward) {
        found.push_back(region);
        continue;
      }
      const std::uint32_t split = first_for_training(index, has_trained);
      if (split > region.first)
        found.push_back({Phase::evaluation, region.first, std::min(split - 1, region.last)});
      if (split <= region.last) found.push_back({Phase::forward, split, region.last});
    }
    return found;
  }

 private:
  // Visits every row that a call allocated in a forward region that a backward follows.
  template <typename Visit>
  void for_each_row(const Visit& visit) const {
    // Rows are in order of birth, but for those of a damaged history.
    std::size_t call = calls_.size();
    std::size_t behind = regions_.size();
    for (std::size_t row = 0; row < rows_.size(); ++row) {
      const std::uint32_t birth = rows_.alloc_event[row];
      if (birth == kNoEvent) continue;
      if (!is_call_at(call, birth)) {
        const std::ptrdiff_t found = call_at(calls_, birth);
        if (found < 0) continue;
        call = static_cast<std::size_t>(found);
      }
      if (birth > calls_[call].last_event) continue;
      if (!is_region_behind(behind, birth)) behind = region_behind(birth);
      if (behind == 0 || behind == regions_.size()) continue;
      if (regions_[behind].phase != Phase::backward || regions_[behind - 1].phase != Phase::forward)
        continue;
      visit(call, behind, rows_.free_requested_event[row]);
    }
  }

  void need(std::size_t call, std::size_t region) {
    is_needed_[call] = true;
    first_needed_[region] = std::min(first_needed_[region], calls_[call].first_event);
  }

  // What backward frees, forward had saved for it.
  void find_used_by_backward() {
    for_each_row([&](std::size_t call, std::size_t backward, std::uint32_t death) {
      const Region& region = regions_[backward];
      if (death >= region.first && death <= region.last) need(call, backward - 1);
    });
  }

  // What a teacher or a frozen part allocated lives until the trained part has used it. A variable
  // may hold it until the same line reassigns it, in the next step.
  void find_used_by_forward() {
    const std::vector<std::uint32_t> trained = first_needed_;
    const std::unordered_set<std::uint32_t> regular = sites_of_every_step(trained);
    for_each_row([&](std::size_t call, std::size_t backward, std::uint32_t death) {
      const std::uint32_t last = regular.contains(calls_[call].site.index)
                                     ? end_of_next_forward(backward)
                                     : regions_[backward].last;
      if (death >= trained[backward - 1] && death <= last) need(call, backward - 1);
    });
  }

  // The lines that call a model before the trained part runs, in every step.
  [[nodiscard]] std::unordered_set<std::uint32_t> sites_of_every_step(
      const std::vector<std::uint32_t>& trained) const {
    std::unordered_map<std::uint32_t, std::size_t> steps_of;
    std::size_t steps = 0;
    for (std::size_t index = 0; index < regions_.size(); ++index) {
      if (trained[index] == kNoEvent) continue;
      ++steps;
      std::unordered_set<std::uint32_t> sites;
      for (std::size_t call = first_call(regions_[index]); call < calls_.size(); ++call) {
        if (calls_[call].first_event >= trained[index]) break;
        sites.insert(calls_[call].site.index);
      }
      for (const std::uint32_t site : sites) ++steps_of[site];
    }
    std::unordered_set<std::uint32_t> found;
    for (const auto& [site, count] : steps_of) {
      if (count == steps) found.insert(site);
    }
    return found;
  }

  // The last event of the next step's forward, or of this backward if there is none.
  [[nodiscard]] std::uint32_t end_of_next_forward(std::size_t backward) const {
    for (std::size_t index = backward + 1; index < regions_.size(); ++index) {
      if (regions_[index].phase == Phase::forward) return regions_[index].last;
    }
    return regions_[backward].last;
  }

  // The event at which a forward region changes from evaluation to training; its first if all of it
  // is for training, and after its last if none is.
  [[nodiscard]] std::uint32_t first_for_training(std::size_t index, bool has_trained) {
    const Region& region = regions_[index];
    std::unordered_set<std::uint32_t> needed_sites;
    for (std::size_t call = first_call(region); call < calls_.size(); ++call) {
      if (calls_[call].first_event > region.last) break;
      if (is_needed_[call]) needed_sites.insert(calls_[call].site.index);
    }
    // If nothing shows what backward used, all of the region may be for it.
    const bool is_last = index + 1 == regions_.size();
    if (needed_sites.empty() && !(is_last && has_trained)) return region.first;
    std::uint32_t split = region.first;
    for (std::size_t call = first_call(region); call < calls_.size(); ++call) {
      const std::uint32_t begin = calls_[call].first_event;
      if (begin > region.last) break;
      if (!is_evaluation(call, needed_sites))
        return split == region.first ? split : first_made_for(begin, split);
      split = calls_[call].last_event + 1;
    }
    return region.last + 1;
  }

  // Between two calls the program uses what the first one produced and prepares the second: the
  // second's part begins with the first block that is still live when it runs.
  [[nodiscard]] std::uint32_t first_made_for(std::uint32_t call_event, std::uint32_t from) {
    if (row_made_at_.empty()) find_rows_of_events();
    for (std::uint32_t event = from; event < call_event; ++event) {
      const std::uint32_t row = row_made_at_[event];
      if (row != AllocationId::kNone && rows_.free_requested_event[row] > call_event) return event;
    }
    return call_event;
  }

  void find_rows_of_events() {
    row_made_at_.assign(events_, AllocationId::kNone);
    for (std::uint32_t row = 0; row < rows_.size(); ++row) {
      const std::uint32_t birth = rows_.alloc_event[row];
      if (birth < row_made_at_.size()) row_made_at_[birth] = row;
    }
  }

  [[nodiscard]] bool is_evaluation(std::size_t call,
                                   const std::unordered_set<std::uint32_t>& needed_sites) const {
    const std::uint32_t site = calls_[call].site.index;
    if (is_needed_[call]) return false;
    return !training_sites_.contains(site) || needed_sites.contains(site);
  }

  [[nodiscard]] std::size_t first_call(const Region& region) const {
    const auto call = std::lower_bound(
        calls_.begin(), calls_.end(), region.first,
        [](const ForwardCall& each, std::uint32_t event) { return each.first_event < event; });
    return static_cast<std::size_t>(call - calls_.begin());
  }

  // Whether call_at() would find this one; so for region_behind().
  [[nodiscard]] bool is_call_at(std::size_t call, std::uint32_t event) const {
    return call < calls_.size() && calls_[call].first_event <= event &&
           (call + 1 == calls_.size() || event < calls_[call + 1].first_event);
  }
  [[nodiscard]] bool is_region_behind(std::size_t region, std::uint32_t event) const {
    return region < regions_.size() && event < regions_[region].first &&
           (region == 0 || regions_[region - 1].first <= event);
  }

  // The first region that begins after the event.
  [[nodiscard]] std::size_t region_behind(std::uint32_t event) const {
    const auto behind =
        std::upper_bound(regions_.begin(), regions_.end(), event,
                         [](std::uint32_t at, const Region& region) { return at < region.first; });
    return static_cast<std::size_t>(behind - regions_.begin());
  }

  const AllocationColumns& rows_;
  const std::vector<Region>& regions_;
  std::vector<ForwardCall> calls_;
  std::vector<bool> is_needed_;              // by call: training uses what it allocated
  std::vector<std::uint32_t> first_needed_;  // by region: the first call that training needs
  std::size_t events_;
  std::vector<std::uint32_t> row_made_at_;  // by event; mostly not needed
  std::unordered_set<std::uint32_t> training_sites_;
};

}  // namespace

std::vector<Region> with_evaluation(const Store& store, const DeviceRecord& record,
                                    const std::vector<CodeKind>& kinds,
                                    const std::vector<Region>& regions) {
  const bool trains = std::any_of(regions.begin(), regions.end(), [](const Region& region) {
    return region.phase == Phase::backward;
  });
  if (!trains) return regions;
  return EvaluationFinder(store, record, kinds, regions).run();
}

}  // namespace gpumemprof
