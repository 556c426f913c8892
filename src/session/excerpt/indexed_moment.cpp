#include "session/excerpt/indexed_moment.h"

#include <algorithm>
#include <unordered_map>

#include "analysis/overview/when.h"
#include "session/excerpt/indexed_part.h"
#include "session/excerpt/run_outline.h"

namespace gpumemprof {
namespace {

// The phases of the stretch, as if those of the whole run were there: a stretch without steps may
// be part of a run that has some.
std::vector<PhaseSpan> phases_for(const DeviceOverview& run, std::uint32_t last_step,
                                  std::vector<PhaseSpan> spans) {
  const auto is_known = [](const PhaseFigures& figures) { return figures.phase != Phase::other; };
  const bool has_phases = std::ranges::any_of(run.sources.phases, is_known);
  constexpr std::uint32_t kBehindAll = kNoEvent - 1;
  if (has_phases || last_step > 0)
    spans.push_back({kBehindAll, has_phases ? Phase::forward : Phase::other, last_step});
  return spans;
}

// What is live under a tag is of the moment, the rest of the whole run.
void join_tags(TagReport& tags, const TagReport& moment) {
  std::unordered_map<std::uint32_t, TagFigures> live;
  for (const TagFigures& figures : moment.tags) live.emplace(figures.tag.index, figures);
  for (TagFigures& figures : tags.tags) {
    const auto found = live.find(figures.tag.index);
    figures.bytes = found == live.end() ? 0 : found->second.bytes;
    figures.blocks = found == live.end() ? 0 : found->second.blocks;
  }
  tags.largest = moment.largest;
  tags.named_bytes = moment.named_bytes;
  tags.named_blocks = moment.named_blocks;
}

// In numbers of the run, also of what is older than the stretch.
std::uint32_t event_of_run(const KnownPart& known, std::uint32_t row) {
  if (row == kNoEvent || row >= known.range.lead_in) return known.range.number_of(row);
  const auto found =
      std::ranges::lower_bound(known.allocations, row, {}, &KnownPart::Allocation::event);
  return found == known.allocations.end() || found->event != row ? kNoEvent : found->birth;
}

}  // namespace

Result<DeviceOverview> look_at_event(const RunIndex& index, const DeviceOverview& at_peak,
                                     std::uint32_t event) {
  const IndexOutline outline(index);
  const DeviceOutline device = outline.device(at_peak.device);
  ExcerptRange range;
  range.from = event;
  range.to = event + 1;
  range.run_events = device.events;
  range.run_start_ns = device.first_time_ns;
  const Result<std::shared_ptr<const Recording>> part =
      open_parts(index, index.at_peak().path, {{at_peak.device, range}});
  if (!part) return part.error();
  const Store& store = part.value()->store();
  const std::optional<std::size_t> place = store.device_row(at_peak.device);
  GMP_CHECK(place);
  const DeviceRecord& record = *store.devices()[*place];
  const KnownPart& known = *part.value()->known_part(at_peak.device);
  const std::uint32_t row = known.range.row_of(event);
  DeviceOverview moment;
  look_at_moment(store, record, Moment::after(row), moment);
  DeviceOverview found = at_peak;
  found.asked = {AskedMoment::Kind::event, event};
  found.asked_when =
      when_at(store, at_peak.device, phases_for(at_peak, device.last_step, known.spans), row,
              record.events.time_ns[row], device.first_time_ns);
  found.asked_when.event = event;
  found.totals = moment.totals;
  found.live = std::move(moment.live);
  found.live_lines = std::move(moment.live_lines);
  found.memory = std::move(moment.memory);
  found.pins = std::move(moment.pins);
  for (PinnedSegment& pinned : found.pins.segments)
    pinned.pin_event = event_of_run(known, pinned.pin_event);
  join_tags(found.tags, moment.tags);
  found.asked_sources = moment.asked_sources;
  return found;
}

}  // namespace gpumemprof
