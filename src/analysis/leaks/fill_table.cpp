#include "analysis/leaks/fill_table.h"

#include <algorithm>
#include <limits>

#include "analysis/growth/plausible_bytes.h"
#include "analysis/tags/tags.h"

namespace gpumemprof {

std::vector<std::int64_t> collection_times(const Store& store, DeviceIndex device) {
  std::vector<std::int64_t> found;
  for (const Annotation& annotation : store.annotations()) {
    if (annotation.device != device || annotation.time_ns == kUnknownTime) continue;
    if (annotation.stage != Annotation::Stage::start) continue;
    if (store.text(annotation.name) == kCollection) found.push_back(annotation.time_ns);
  }
  std::ranges::sort(found);
  return found;
}

// A mark follows each run that freed something: what was freed right before it.
std::vector<Collection> find_collections(const std::vector<std::int64_t>& times_ns,
                                         const DeviceRecord& record, std::size_t begin,
                                         std::size_t end, bool is_end) {
  std::vector<Collection> found;
  const std::int64_t* const times = record.events.time_ns.begin();
  for (const std::int64_t time_ns : times_ns) {
    const auto after =
        static_cast<std::size_t>(std::lower_bound(times + begin, times + end, time_ns) - times);
    if (after == end && !is_end) break;
    std::size_t first = after;
    while (first > begin && record.events.action[first - 1] != Action::alloc) --first;
    if (first < after)
      found.push_back({static_cast<std::uint32_t>(first), static_cast<std::uint32_t>(after)});
  }
  std::ranges::sort(found);
  return found;
}

bool is_in(const std::vector<Collection>& collections, std::uint32_t event) {
  const auto after = std::upper_bound(collections.begin(), collections.end(),
                                      Collection{event, std::numeric_limits<std::uint32_t>::max()});
  return after != collections.begin() && event < std::prev(after)->end;
}

TableFiller::TableFiller(const Store& store, const StepFloors& floors)
    : store_(store),
      floors_(floors),
      kinds_(code_kinds(store)),
      sites_(store),
      cursor_(floors),
      peaks_(floors.steps.size()) {}

SiteFloors& TableFiller::site(std::uint64_t key) {
  if (const std::uint32_t* known = rows_of_sites_.find(key)) return table_.sites[*known];
  rows_of_sites_.insert_or_assign(key, static_cast<std::uint32_t>(table_.sites.size()));
  const AllocationSite site = AllocationSite::of_key(key);
  SiteFloors& added = table_.sites.emplace_back();
  added.stack = site.stack;
  added.is_backward = site.is_backward;
  return added;
}

void TableFiller::add(const DeviceRecord& record, std::size_t row, Lifetime life) {
  if (floors_.steps.empty()) return;
  const auto [birth, death] = life;
  const auto bytes =
      static_cast<std::uint64_t>(plausible_bytes(record.allocations.requested_bytes[row]));
  if (birth == kNoEvent) live_ += static_cast<std::int64_t>(bytes);
  if (birth != kNoEvent && birth < floors_.end_of_work && death >= floors_.end_of_work)
    keep(record, row, life);
  const std::uint32_t last_floor = floors_.steps.back().event;
  const std::uint32_t middle = floors_.steps[floors_.steps.size() / 2].first_event;
  const bool is_live_at_last = (birth == kNoEvent || birth <= last_floor) && death > last_floor;
  // What was live before the first repetition is not growth.
  if (!is_of_steps(life) && !is_live_at_last) return;
  const MemorySource source =
      is_live_at_last ? likely_source(record, row, kinds_) : MemorySource::unknown;
  if (is_live_at_last) table_.live_bytes[source] += bytes;
  if (!is_of_steps(life)) return;
  SiteFloors& made_by = site(sites_.of(record, row).key());
  (birth < middle ? made_by.made_early_bytes : made_by.made_late_bytes) += bytes;
  if (!cursor_.sees_any(birth, death)) return;
  const FloorRange seen = floors_.seen_by(birth, death);
  if (seen.first >= seen.end) return;
  made_by.add(seen, bytes, false);
  if (is_live_at_last) made_by.live_bytes[source] += static_cast<std::int64_t>(bytes);
}

void TableFiller::keep(const DeviceRecord& record, std::size_t row, Lifetime life) {
  KeptAllocation& kept = kept_.emplace_back();
  kept.site = sites_.of(record, row).key();
  kept.bytes = static_cast<std::uint64_t>(plausible_bytes(record.allocations.requested_bytes[row]));
  kept.birth = life.birth;
  kept.is_freed = life.death != kNoEvent;
  const std::uint32_t place = record.allocations.alloc_event[row];
  if (place < record.events.module.size()) kept.module = record.events.module[place];
  kept.stack = record.allocations.stack[row];
  kept.tag = tag_of(record, row);
  // As reports say it; but what is kept is no temporary.
  if (row < record.labels.source.size()) kept.source = record.labels.source[row];
  if (kept.source == MemorySource::temporaries) kept.source = likely_source(record, row, kinds_);
  kept.is_measured = row < record.labels.flags.size() && record.labels.is_measured(row);
}

void TableFiller::add_collected(const DeviceRecord& record, std::size_t row, Lifetime life) {
  if (floors_.steps.empty() || !is_of_steps(life)) return;
  const FloorRange seen = floors_.seen_by(life.birth, life.death);
  if (seen.first >= seen.end) return;
  site(sites_.of(record, row).key())
      .add_collected(seen.end, record.allocations.requested_bytes[row]);
}

void TableFiller::add_event(std::uint32_t event, Action action, std::uint64_t size_bytes) {
  if (event >= floors_.end_of_work) return;
  if (next_floor_ < floors_.steps.size() && event >= floors_.steps[next_floor_].first_event) {
    ++next_floor_;
    peak_ = live_;
  }
  const std::int64_t size = plausible_bytes(size_bytes);
  if (action == Action::alloc) live_ += size;
  if (action == Action::free_requested) live_ -= size;
  if (next_floor_ == 0) return;
  peak_ = std::max(peak_, live_);
  peaks_[next_floor_ - 1] = static_cast<std::uint64_t>(std::max<std::int64_t>(0, peak_));
}

void TableFiller::settle(std::uint32_t before_event) {
  const auto open = std::ranges::partition_point(
      floors_.steps, [&](const StepFloor& floor) { return floor.event < before_event; });
  const auto floor = static_cast<std::size_t>(open - floors_.steps.begin());
  for (SiteFloors& site : table_.sites) site.settle(floor, floors_.steps.size());
}

// What was reserved, and what the process held outside of the pool when the card was sampled.
void TableFiller::add_reserved(DeviceIndex device, const SegmentColumns& segments) {
  table_.floors.resize(peaks_.size());
  for (std::size_t index = 0; index < peaks_.size(); ++index) {
    table_.floors[index].step = floors_.steps[index].step;
    table_.floors[index].peak_bytes = peaks_[index];
  }
  std::vector<std::pair<std::uint32_t, std::int64_t>> changes;
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
    if (sample.device == device && sample.process_bytes != kUnknownBytes &&
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

void fill_table(const DeviceRecord& record, const std::vector<Collection>& collections,
                TableFiller& filler) {
  const AllocationColumns& rows = record.allocations;
  for (std::size_t row = 0; row < rows.size(); ++row) {
    const Lifetime life{rows.alloc_event[row], rows.free_requested_event[row]};
    filler.add(record, row, life);
    if (life.death != kNoEvent && is_in(collections, life.death))
      filler.add_collected(record, row, life);
  }
  const EventColumns& events = record.events;
  for (std::uint32_t event = 0; event < events.size(); ++event)
    filler.add_event(event, events.action[event], events.size_bytes[event]);
  filler.add_reserved(record.device, record.segments);
}

FloorTable fill_table(const Store& store, const DeviceRecord& record, const StepFloors& floors) {
  TableFiller filler(store, floors);
  fill_table(record,
             find_collections(collection_times(store, record.device), record, 0,
                              record.events.size(), true),
             filler);
  return filler.take_table();
}

}  // namespace gpumemprof
