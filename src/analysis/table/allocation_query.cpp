#include "analysis/table/allocation_query.h"

#include <algorithm>

#include "analysis/table/search_words.h"
#include "analysis/tags/tags.h"
#include "analysis/timeline/grouping.h"

namespace gpumemprof {
namespace {

class Search {
 public:
  Search(const Store& store, const DeviceRecord& record, const EventTimes& times,
         const AllocationQuery& query)
      : record_(record),
        rows_(record.allocations),
        times_(times),
        query_(query),
        words_(store, query.filter.words) {}

  AllocationPage run() {
    AllocationPage page;
    std::vector<Found> found;
    for (std::size_t row = 0; row < rows_.size(); ++row) {
      if (!matches(row)) continue;
      found.push_back({key(row), static_cast<std::uint32_t>(row)});
      page.matching_bytes += rows_.size_bytes[row];
    }
    page.matches = found.size();
    const std::size_t from = std::min(query_.offset, found.size());
    const std::size_t to = std::min(from + query_.limit, found.size());
    const auto at = [&](std::size_t index) {
      return found.begin() + static_cast<std::ptrdiff_t>(index);
    };
    const auto before = [this](const Found& a, const Found& b) { return comes_before(a, b); };
    // Only the requested page is sorted.
    if (to < found.size()) std::nth_element(found.begin(), at(to), found.end(), before);
    if (from > 0 && from < to) std::nth_element(found.begin(), at(from), at(to), before);
    std::sort(at(from), at(to), before);
    for (std::size_t index = from; index < to; ++index) page.rows.emplace_back(found[index].row);
    return page;
  }

 private:
  struct Found {
    std::uint64_t key;
    std::uint32_t row;
  };

  [[nodiscard]] bool matches(std::size_t row) {
    const AllocationFilter& filter = query_.filter;
    const std::uint64_t size = rows_.size_bytes[row];
    if (size < filter.min_size_bytes || size > filter.max_size_bytes) return false;
    if (filter.grouping != nullptr && filter.grouping->group_of_allocation[row] != filter.group)
      return false;
    if (filter.live_at && !rows_.is_allocated_at(row, moment_of(*filter.live_at))) return false;
    const std::uint32_t death = rows_.free_requested_event[row];
    if (filter.to && birth_position(rows_.alloc_event[row]) >= *filter.to) return false;
    if (filter.from && death != kNoEvent && position_after(death) <= *filter.from) return false;
    if (filter.min_lifetime > 0 || filter.max_lifetime != AllocationFilter::kMostLifetime) {
      const std::int64_t lifetime = lifetime_of(record_, times_, row);
      if (lifetime < filter.min_lifetime || lifetime > filter.max_lifetime) return false;
    }
    return words_.match(rows_.stack[row], forward_stack(row), source(row), name(row),
                        tag_of(record_, row));
  }

  [[nodiscard]] std::optional<MemorySource> source(std::size_t row) const {
    if (!has_sources(record_)) return std::nullopt;
    return record_.labels.source[row];
  }

  [[nodiscard]] StringId name(std::size_t row) const {
    const Column<StringId>& names = record_.labels.name;
    return row < names.size() ? names[row] : StringId();
  }

  [[nodiscard]] StackId forward_stack(std::size_t row) const {
    const std::uint32_t event = rows_.alloc_event[row];
    const auto& stacks = record_.events.forward_stack;
    return event < stacks.size() ? stacks[event] : StackId();
  }

  [[nodiscard]] std::uint64_t key(std::size_t row) const {
    switch (query_.order) {
      case AllocationOrder::birth:
        return birth_position(rows_.alloc_event[row]);
      case AllocationOrder::lifetime:
        return static_cast<std::uint64_t>(lifetime_of(record_, times_, row));
      case AllocationOrder::rounding:
        return rows_.size_bytes[row] - rows_.requested_bytes[row];
      case AllocationOrder::size:
        break;
    }
    return rows_.size_bytes[row];
  }

  // Ties are in order of birth, so that pages never overlap.
  [[nodiscard]] bool comes_before(const Found& a, const Found& b) const {
    if (a.key == b.key) return a.row < b.row;
    return query_.direction == SortDirection::down ? a.key > b.key : a.key < b.key;
  }

  const DeviceRecord& record_;
  const AllocationColumns& rows_;
  const EventTimes& times_;
  const AllocationQuery& query_;
  SearchWords words_;
};

}  // namespace

std::int64_t lifetime_of(const DeviceRecord& record, const EventTimes& times, std::size_t row) {
  const std::size_t events = record.events.size();
  if (events == 0) return 0;
  const auto last = static_cast<std::uint32_t>(events - 1);
  const std::uint32_t birth = record.allocations.alloc_event[row];
  const std::uint32_t death = record.allocations.free_requested_event[row];
  const std::uint32_t from = birth == kNoEvent ? 0 : std::min(birth, last);
  const std::uint32_t to = std::max(from, std::min(death, last));
  return times.is_known() ? times.of_event(to) - times.of_event(from)
                          : static_cast<std::int64_t>(to) - static_cast<std::int64_t>(from);
}

AllocationPage find_allocations(const Store& store, const DeviceRecord& record,
                                const EventTimes& times, const AllocationQuery& query) {
  return Search(store, record, times, query).run();
}

}  // namespace gpumemprof
