#include "analysis/sources/evaluation.h"

#include <algorithm>

#include "analysis/sources/run_kind.h"

namespace gpumemprof {
namespace {

class EvaluationFinder {
 public:
  EvaluationFinder(const DeviceRecord& record, const std::vector<CodeKind>& kinds,
                   const std::vector<Region>& regions)
      : rows_(record.allocations),
        regions_(regions),
        calls_(find_forward_calls(record, kinds)),
        first_needed_(regions.size(), kNoEvent) {}

  std::vector<Region> run() {
    find_used_by_backward();
    find_used_by_forward();
    std::vector<Region> found;
    bool has_trained = false;
    for (std::size_t index = 0; index < regions_.size(); ++index) {
      const Region& region = regions_[index];
      has_trained = has_trained || region.phase == Phase::backward;
      if (region.phase != Phase::forward) {
        found.push_back(region);
        continue;
      }
      const bool is_last = index + 1 == regions_.size();
      const std::uint32_t split =
          is_last && has_trained ? end_of_last(region) : std::max(start_of(index), region.first);
      if (split > region.first)
        found.push_back({Phase::evaluation, region.first, std::min(split - 1, region.last)});
      if (split <= region.last) found.push_back({Phase::forward, split, region.last});
    }
    return found;
  }

 private:
  // Visits every row that a call of a forward region made whose next region is a backward.
  template <typename Visit>
  void for_each_row(const Visit& visit) const {
    for (std::size_t row = 0; row < rows_.size(); ++row) {
      const std::uint32_t birth = rows_.alloc_event[row];
      const std::ptrdiff_t call = birth == kNoEvent ? -1 : call_at(calls_, birth);
      if (call < 0 || birth > calls_[static_cast<std::size_t>(call)].last_event) continue;
      const std::size_t behind = region_behind(birth);
      if (behind == 0 || behind == regions_.size()) continue;
      if (regions_[behind].phase != Phase::backward || regions_[behind - 1].phase != Phase::forward)
        continue;
      visit(calls_[static_cast<std::size_t>(call)], behind, rows_.free_requested_event[row]);
    }
  }

  // What backward frees, forward had saved for it.
  void find_used_by_backward() {
    for_each_row([&](const ForwardCall& call, std::size_t backward, std::uint32_t death) {
      const Region& region = regions_[backward];
      if (death >= region.first && death <= region.last)
        first_needed_[backward - 1] = std::min(first_needed_[backward - 1], call.first_event);
    });
  }

  // What a teacher or a frozen part made lives until the part that is trained has used it.
  void find_used_by_forward() {
    const std::vector<std::uint32_t> trained = first_needed_;
    for_each_row([&](const ForwardCall& call, std::size_t backward, std::uint32_t death) {
      if (death >= trained[backward - 1] && death <= regions_[backward].last)
        first_needed_[backward - 1] = std::min(first_needed_[backward - 1], call.first_event);
    });
  }

  // Where nothing shows what backward used, all of the region may be for it.
  [[nodiscard]] std::uint32_t start_of(std::size_t region) const {
    return first_needed_[region] == kNoEvent ? regions_[region].first : first_needed_[region];
  }

  // The first region that begins after the event.
  [[nodiscard]] std::size_t region_behind(std::uint32_t event) const {
    const auto behind =
        std::upper_bound(regions_.begin(), regions_.end(), event,
                         [](std::uint32_t at, const Region& region) { return at < region.first; });
    return static_cast<std::size_t>(behind - regions_.begin());
  }

  // A forward behind the last backward is evaluation unless it keeps what it makes, as one does
  // that was cut short.
  [[nodiscard]] std::uint32_t end_of_last(const Region& region) const {
    std::uint64_t made = 0;
    std::uint64_t held = 0;
    for (std::size_t row = 0; row < rows_.size(); ++row) {
      const std::uint32_t birth = rows_.alloc_event[row];
      if (birth == kNoEvent || birth < region.first || birth > region.last) continue;
      made += rows_.requested_bytes[row];
      if (rows_.free_requested_event[row] > region.last) held += rows_.requested_bytes[row];
    }
    constexpr std::uint64_t kParts = 10;
    constexpr std::uint64_t kMuch = 3;
    return held / kMuch >= made / kParts ? region.first : region.last + 1;
  }

  const AllocationColumns& rows_;
  const std::vector<Region>& regions_;
  std::vector<ForwardCall> calls_;
  std::vector<std::uint32_t> first_needed_;  // by region: the first call that training needs
};

}  // namespace

std::vector<Region> with_evaluation(const DeviceRecord& record, const std::vector<CodeKind>& kinds,
                                    const std::vector<Region>& regions) {
  const bool trains = std::any_of(regions.begin(), regions.end(), [](const Region& region) {
    return region.phase == Phase::backward;
  });
  if (!trains) return regions;
  return EvaluationFinder(record, kinds, regions).run();
}

}  // namespace gpumemprof
