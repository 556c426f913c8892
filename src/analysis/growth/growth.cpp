#include "analysis/growth/growth.h"

#include <algorithm>
#include <map>

#include "analysis/code/allocation_site.h"
#include "analysis/code/common_line.h"
#include "analysis/growth/site_series.h"
#include "analysis/growth/step_floors.h"

namespace gpumemprof {
namespace {

class GrowthFinder {
 public:
  GrowthFinder(const Store& store, const DeviceRecord& record, const std::vector<PhaseSpan>& spans,
               const GrowthOptions& options)
      : record_(record), options_(options), floors_(find_floors(record, spans)), sum_(store) {}

  Growth run() {
    if (floors_.steps.size() >= options_.fewest_steps) follow_rows();
    Growth growth = sum_.finish(floors_, options_);
    if (growth.is_growing) collect_rows(growth);
    return growth;
  }

 private:
  // What was live before the first step is not growth.
  [[nodiscard]] bool is_of_steps(std::size_t row) const {
    const std::uint32_t birth = record_.allocations.alloc_event[row];
    return birth != kNoEvent && birth >= floors_.steps.front().first_event;
  }

  void follow_rows() {
    const AllocationColumns& rows = record_.allocations;
    FloorCursor cursor(floors_);
    for (std::size_t row = 0; row < rows.size(); ++row) {
      if (!is_of_steps(row)) continue;
      const std::uint32_t birth = rows.alloc_event[row];
      const std::uint32_t death = rows.free_requested_event[row];
      if (!cursor.sees_any(birth, death)) continue;
      const FloorRange seen = floors_.seen_by(birth, death);
      if (seen.first >= seen.end) continue;
      sum_.series(record_, row).add(seen, rows.requested_bytes[row]);
    }
  }

  void collect_rows(Growth& growth) {
    FloorCursor cursor(floors_);
    for (std::uint32_t row = 0; row < record_.allocations.size(); ++row) {
      const Lifetime life{record_.allocations.alloc_event[row],
                          record_.allocations.free_requested_event[row]};
      if (sum_.is_grown(record_, row, life, floors_, cursor)) growth.rows.push_back(row);
    }
  }

  const DeviceRecord& record_;
  GrowthOptions options_;
  StepFloors floors_;
  GrowthSum sum_;
};

// One line of code may be reached in several ways.
void join_lines(std::vector<GrowingLine>& lines) {
  std::vector<GrowingLine> joined;
  for (const GrowingLine& line : lines) {
    const auto same = std::find_if(joined.begin(), joined.end(), [&](const GrowingLine& other) {
      return other.frame == line.frame && other.is_backward == line.is_backward;
    });
    if (same == joined.end()) {
      joined.push_back(line);
      continue;
    }
    same->grown_bytes += line.grown_bytes;
    same->bytes_per_step += line.bytes_per_step;
    same->since_step = std::min(same->since_step, line.since_step);
  }
  lines = std::move(joined);
}

}  // namespace

Growth GrowthSum::finish(const StepFloors& floors, const GrowthOptions& options) {
  Growth growth;
  if (floors.steps.size() < options.fewest_steps) return growth;
  growth.is_known = true;
  growth.steps = static_cast<std::uint32_t>(floors.steps.size());
  growth.last_step = floors.steps.back().step;
  std::uint64_t sum = 0;
  for (const auto& [key, series] : series_) {
    if (const std::optional<SiteGrowth> found = series.growth(floors.steps.size())) {
      growing_.emplace(key, *found);
      sum += found->bytes;
    }
  }
  const auto share =
      static_cast<std::uint64_t>(options.least_share * static_cast<double>(floors.most_bytes));
  if (sum == 0 || sum < std::max(options.least_bytes, share)) {
    growing_.clear();
    return growth;
  }
  growth.is_growing = true;
  growth.grown_bytes = sum;
  describe(floors, growth);
  return growth;
}

bool GrowthSum::is_grown(const DeviceRecord& record, std::size_t row, Lifetime life,
                         const StepFloors& floors, FloorCursor& cursor) {
  // What was live before the first step is not growth.
  if (growing_.empty() || life.birth == kNoEvent || life.birth < floors.steps.front().first_event)
    return false;
  // What the last step leaves live sees no floor.
  const bool is_kept = cursor.sees_any(life.birth, life.death) || life.death >= floors.end_of_work;
  return is_kept && growing_.contains(sites_.of(record, row).key());
}

void GrowthSum::settle(std::size_t before_floor) {
  for (auto& [key, series] : series_) series.settle(before_floor);
}

void GrowthSum::describe(const StepFloors& floors, Growth& growth) const {
  const std::size_t count = floors.steps.size();
  growth.since_step = growth.last_step;
  for (const auto& [key, found] : growing_) {
    GrowingLine line;
    const StackId stack(static_cast<std::uint32_t>(key >> 1U));
    line.is_backward = (key & 1U) != 0;
    if (!stack.is_none()) line.frame = store_.stacks().frame(stack);
    line.grown_bytes = found.bytes;
    line.bytes_per_step =
        static_cast<double>(found.bytes) / static_cast<double>(count - found.first_floor);
    // The floor of a step is usually at its beginning: the step before left it behind.
    line.since_step = floors.steps[found.first_floor - 1].step;
    growth.since_step = std::min(growth.since_step, line.since_step);
    growth.bytes_per_step += line.bytes_per_step;
    growth.lines.push_back(line);
  }
  std::stable_sort(
      growth.lines.begin(), growth.lines.end(),
      [](const GrowingLine& a, const GrowingLine& b) { return a.grown_bytes > b.grown_bytes; });
  std::vector<std::pair<StackId, std::uint64_t>> grown;
  grown.reserve(growing_.size());
  for (const auto& [key, found] : growing_)
    grown.emplace_back(StackId(static_cast<std::uint32_t>(key >> 1U)), found.bytes);
  growth.line = common_line(store_, grown);
  join_lines(growth.lines);
}

Growth find_growth(const Store& store, const DeviceRecord& record,
                   const std::vector<PhaseSpan>& spans, const GrowthOptions& options) {
  return GrowthFinder(store, record, spans, options).run();
}

}  // namespace gpumemprof
