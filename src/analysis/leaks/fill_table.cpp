#include "analysis/leaks/fill_table.h"

#include <algorithm>
#include <limits>

#include "analysis/code/allocation_site.h"
#include "analysis/code/code_kind.h"
#include "analysis/growth/plausible_bytes.h"
#include "base/flat_map.h"

namespace gpumemprof {
namespace {

// The events [first, end) in which the garbage collector ran.
using Collections = std::vector<std::pair<std::uint32_t, std::uint32_t>>;

// A mark follows each run that freed something: what was freed right before it.
Collections find_collections(const Store& store, const DeviceRecord& record) {
  Collections found;
  const Column<std::int64_t>& times = record.events.time_ns;
  for (const Annotation& annotation : store.annotations()) {
    if (annotation.device != record.device || annotation.time_ns == kUnknownTime) continue;
    if (annotation.stage != Annotation::Stage::start) continue;
    if (store.text(annotation.name) != kCollection) continue;
    const auto end = static_cast<std::uint32_t>(
        std::lower_bound(times.begin(), times.end(), annotation.time_ns) - times.begin());
    std::uint32_t first = end;
    while (first > 0 && record.events.action[first - 1] != Action::alloc) --first;
    if (first < end) found.emplace_back(first, end);
  }
  std::sort(found.begin(), found.end());
  return found;
}

bool is_in(const Collections& collections, std::uint32_t event) {
  const auto after = std::upper_bound(collections.begin(), collections.end(),
                                      std::pair{event, std::numeric_limits<std::uint32_t>::max()});
  return after != collections.begin() && event < std::prev(after)->second;
}

class TableFiller {
 public:
  TableFiller(const Store& store, const DeviceRecord& record, const StepFloors& floors)
      : store_(store),
        record_(record),
        floors_(floors),
        kinds_(code_kinds(store)),
        sites_(store),
        collections_(find_collections(store, record)) {}

  FloorTable run() {
    if (floors_.steps.empty()) return {};
    table_.most_bytes = floors_.most_bytes;
    for (const StepFloor& floor : floors_.steps) {
      table_.floors.emplace_back();
      table_.floors.back().step = floor.step;
    }
    add_rows();
    add_peaks();
    add_reserved();
    return std::move(table_);
  }

 private:
  // The repetition that an event belongs to; -1 before the first.
  [[nodiscard]] std::ptrdiff_t repetition_of(std::uint32_t event) const {
    const auto after = std::upper_bound(
        floors_.steps.begin(), floors_.steps.end(), event,
        [](std::uint32_t at, const StepFloor& floor) { return at < floor.first_event; });
    return after - floors_.steps.begin() - 1;
  }

  SiteFloors& site_of(std::size_t row) {
    const AllocationSite site = sites_.of(record_, row);
    if (const std::uint32_t* known = rows_of_sites_.find(site.key())) return table_.sites[*known];
    rows_of_sites_.insert_or_assign(site.key(), static_cast<std::uint32_t>(table_.sites.size()));
    table_.sites.push_back({site.stack, site.is_backward, {}, {}, 0, 0});
    return table_.sites.back();
  }

  void add_rows() {
    const AllocationColumns& rows = record_.allocations;
    FloorCursor cursor(floors_);
    const std::uint32_t last_floor = floors_.steps.back().event;
    const std::uint32_t middle = floors_.steps[floors_.steps.size() / 2].first_event;
    for (std::size_t row = 0; row < rows.size(); ++row) {
      const std::uint32_t birth = rows.alloc_event[row];
      const std::uint32_t death = rows.free_requested_event[row];
      const bool is_live_at_last = (birth == kNoEvent || birth <= last_floor) && death > last_floor;
      // What was live before the first repetition is not growth.
      const bool is_of_steps = birth != kNoEvent && birth >= floors_.steps.front().first_event;
      if (!is_of_steps && !is_live_at_last) continue;
      const auto bytes = static_cast<std::uint64_t>(plausible_bytes(rows.requested_bytes[row]));
      const MemorySource source =
          is_live_at_last ? likely_source(record_, row, kinds_) : MemorySource::unknown;
      if (is_live_at_last) table_.live_bytes[source] += bytes;
      if (!is_of_steps) continue;
      SiteFloors& site = site_of(row);
      (birth < middle ? site.made_early_bytes : site.made_late_bytes) += bytes;
      if (!cursor.sees_any(birth, death)) continue;
      const FloorRange seen = floors_.seen_by(birth, death);
      if (seen.first >= seen.end) continue;
      site.add(seen, bytes, death != kNoEvent && is_in(collections_, death));
      if (is_live_at_last) site.live_bytes[source] += static_cast<std::int64_t>(bytes);
    }
  }

  void add_peaks() {
    const EventColumns& events = record_.events;
    std::int64_t live = 0;
    for (std::size_t row = 0; row < record_.allocations.size(); ++row) {
      if (record_.allocations.alloc_event[row] == kNoEvent)
        live += plausible_bytes(record_.allocations.requested_bytes[row]);
    }
    std::size_t next = 0;
    std::int64_t peak = 0;
    const std::size_t end = std::min<std::size_t>(floors_.end_of_work, events.size());
    for (std::uint32_t event = 0; event < end; ++event) {
      if (next < floors_.steps.size() && event >= floors_.steps[next].first_event) {
        ++next;
        peak = live;
      }
      const std::int64_t size = plausible_bytes(events.size_bytes[event]);
      if (events.action[event] == Action::alloc) live += size;
      if (events.action[event] == Action::free_requested) live -= size;
      if (next == 0) continue;
      DeviceFloor& floor = table_.floors[next - 1];
      peak = std::max(peak, live);
      floor.peak_bytes = static_cast<std::uint64_t>(std::max<std::int64_t>(0, peak));
      if (event == floors_.steps[next - 1].event)
        floor.live_bytes = static_cast<std::uint64_t>(std::max<std::int64_t>(0, live));
    }
  }

  // What was reserved, and what the process held outside of the pool when the card was sampled.
  void add_reserved() {
    std::vector<std::pair<std::uint32_t, std::int64_t>> changes;
    const SegmentColumns& segments = record_.segments;
    std::int64_t reserved = 0;
    for (std::size_t row = 0; row < segments.size(); ++row) {
      const std::int64_t size = plausible_bytes(segments.size_bytes[row]);
      if (segments.birth_event[row] == kNoEvent) {
        reserved += size;
      } else {
        changes.emplace_back(segments.birth_event[row], size);
      }
      if (segments.death_event[row] != kNoEvent)
        changes.emplace_back(segments.death_event[row], -size);
    }
    std::sort(changes.begin(), changes.end());
    std::vector<const DeviceSample*> samples;
    for (const DeviceSample& sample : store_.samples()) {
      if (sample.device == record_.device && sample.process_bytes != kUnknownBytes &&
          sample.before_event != kNoEvent)
        samples.push_back(&sample);
    }
    std::size_t change = 0;
    std::size_t sample = 0;
    for (std::size_t index = 0; index < table_.floors.size(); ++index) {
      DeviceFloor& floor = table_.floors[index];
      const std::uint32_t end = index + 1 < table_.floors.size()
                                    ? floors_.steps[index + 1].first_event
                                    : floors_.end_of_work;
      std::int64_t most = reserved;
      while (true) {
        const bool has_change = change < changes.size() && changes[change].first < end;
        const bool has_sample = sample < samples.size() && samples[sample]->before_event <= end;
        if (!has_change && !has_sample) break;
        if (has_sample && (!has_change || samples[sample]->before_event <= changes[change].first)) {
          const auto process = static_cast<std::int64_t>(samples[sample++]->process_bytes);
          if (process >= reserved)
            floor.outside_bytes = static_cast<std::uint64_t>(process - reserved);
          continue;
        }
        reserved += changes[change++].second;
        if (index > 0 || changes[change - 1].first >= floors_.steps.front().first_event)
          most = std::max(most, reserved);
        else
          most = reserved;
      }
      floor.reserved_bytes = static_cast<std::uint64_t>(std::max<std::int64_t>(0, most));
    }
  }

  const Store& store_;
  const DeviceRecord& record_;
  const StepFloors& floors_;
  std::vector<CodeKind> kinds_;
  AllocationSites sites_;
  Collections collections_;
  FlatMap<std::uint32_t> rows_of_sites_;  // by key → row of the table's sites
  FloorTable table_;
};

}  // namespace

MemorySource likely_source(const DeviceRecord& record, std::size_t row,
                           const std::vector<CodeKind>& kinds) {
  const MemorySource source =
      row < record.labels.source.size() ? record.labels.source[row] : MemorySource::unknown;
  if (source != MemorySource::unknown && source != MemorySource::temporaries) return source;
  const StackId stack = record.allocations.stack[row];
  if (stack.is_none()) return source;
  switch (kinds[stack.index]) {
    case CodeKind::optimizer_step:
      return MemorySource::optimizer_state;
    case CodeKind::forward:
      return MemorySource::activations;
    case CodeKind::backward:
      return MemorySource::gradients;
    default:
      return source;
  }
}

FloorTable fill_table(const Store& store, const DeviceRecord& record, const StepFloors& floors) {
  return TableFiller(store, record, floors).run();
}

}  // namespace gpumemprof
