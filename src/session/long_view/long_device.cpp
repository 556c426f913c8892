#include "session/long_view/long_device.h"

#include <algorithm>

#include "session/excerpt/indexed_part.h"
#include "session/long_view/stretch_tile.h"

namespace gpumemprof {
namespace {

// A tile is read from at most this many stretches: more would take long.
constexpr std::size_t kMostTileStretches = 3;
// What is listed may come from more.
constexpr std::size_t kMostListedStretches = 6;

Error too_much(std::uint64_t events) {
  return {
      ErrorCode::usage,
      "this range has " + std::to_string(events) + " events, too many of a long run to be listed",
      "", "zoom in, or list what is live at the cursor"};
}

}  // namespace

Result<std::unique_ptr<LongDevice>> LongDevice::open(const Run& run,
                                                     const DeviceOverview& overview) {
  std::unique_ptr<LongDevice> device(new LongDevice(run, overview));
  if (const Status read = device->read_timeline(); !read) return read.error();
  return device;
}

Status LongDevice::read_timeline() {
  Result<Pyramid> pyramid = [&] {
    const std::scoped_lock lock(*run_.reading);
    return run_.index->pyramid(overview_.device);
  }();
  if (!pyramid) return pyramid.error();
  const MemoryTotals& totals = overview_.replay.start;
  RunStart start{totals.allocated_bytes, totals.reserved_bytes, {}};
  const std::vector<PyramidBucket>& buckets = pyramid.value().buckets;
  const std::int64_t first_ns = buckets.empty() ? kUnknownTime : buckets.front().first_time_ns;
  const bool has_times = first_ns != kUnknownTime && overview_.duration_ns != kUnknownTime;
  const bool has_pool = store().facts().has_pool() && overview_.replay.peak_reserved_bytes > 0;
  const bool is_start_largest =
      start.allocated_bytes > 0 &&
      (buckets.empty() || start.allocated_bytes >= buckets.front().max_allocated_bytes);
  const auto make = [&](Pyramid made) {
    timeline_ = std::make_unique<PyramidTimeline>(
        std::move(made), start, has_times ? first_ns + overview_.duration_ns : kUnknownTime,
        has_pool);
  };
  if (!is_start_largest) {
    make(std::move(pyramid).value());
    return Done{};
  }
  make(pyramid.value());
  const Result<StretchPtr> first = at(0);
  if (!first) return first.error();
  const DeviceRecord& record = first.value()->view().record();
  start.sources = sources_at(record, record.labels, moment_of(first.value()->local(0)));
  make(std::move(pyramid).value());
  return Done{};
}

std::vector<GroupBy> LongDevice::group_bys() const {
  return {std::begin(kGroupBys), std::end(kGroupBys)};
}

std::vector<FlameBy> LongDevice::flame_bys() const {
  std::vector<FlameBy> bys = {FlameBy::stack, FlameBy::module};
  if (!overview_.tags.tags.empty()) bys.push_back(FlameBy::tag);
  return bys;
}

std::size_t LongDevice::interval_of(Position position) const {
  const std::vector<std::uint32_t>& events = checkpoints();
  const std::uint32_t event = position == 0 ? 0 : position - 1;
  const auto after = std::ranges::upper_bound(events, event);
  const auto before = static_cast<std::size_t>(after - events.begin()) - 1;
  return std::min(before, events.size() - 2);
}

Result<StretchPtr> LongDevice::read_between(std::size_t first, std::size_t last) const {
  const std::vector<std::uint32_t>& events = checkpoints();
  const std::int64_t start_ns = timeline_->scale().first_ns;
  return Stretch::open(*run_.index, overview_.device, events[first], events[last + 1],
                       {run_.reading, this, start_ns, first == 0 ? nullptr : places()});
}

std::shared_ptr<const LabelledPlaces> LongDevice::places() const {
  std::call_once(is_placed_, [&] {
    const std::scoped_lock lock(*run_.reading);
    places_ = places_at_start(*run_.index, overview_.device);
  });
  return places_;
}

Result<StretchPtr> LongDevice::open_stretch(std::size_t first, std::size_t last) const {
  return run_.stretches->get({overview_.device, first, last + 1},
                             [&] { return read_between(first, last); });
}

Result<StretchPtr> LongDevice::read(std::size_t interval) const {
  return read_between(interval, interval);
}

Result<StretchPtr> LongDevice::at(Position position) const {
  const std::size_t interval = interval_of(position);
  return open_stretch(interval, interval);
}

Result<StretchPtr> LongDevice::over(Position from, Position to) const {
  const Position end = std::min(to, last_position() + 1);
  const std::size_t first = interval_of(std::min(from, last_position()));
  const std::size_t last = std::max(first, interval_of(std::max(from + 1, end) - 1));
  const std::uint64_t events = checkpoints()[last + 1] - checkpoints()[first];
  if (last - first >= kMostListedStretches || events > kMostListedEvents)
    return too_much(end - std::min(from, end));
  return open_stretch(first, last);
}

std::vector<Group> LongDevice::source_groups() const {
  std::vector<Group> groups;
  for (const MemorySourceInfo& info : kMemorySourceTable) {
    if (info.is_listed(overview_.sources.figure(info.source).bytes_max))
      groups.push_back({std::string(info.name), {}, {}});
  }
  groups.push_back({"rounding", {}, {}});
  return groups;
}

std::vector<Group> LongDevice::choose_groups(GroupBy by) const {
  if (by == GroupBy::source) return source_groups();
  std::vector<Group> groups;
  if (const Result<StretchPtr> peak = at(birth_position(overview_.replay.peak_event))) {
    const Stretch& stretch = *peak.value();
    const DeviceView& view = stretch.view();
    const Position local = stretch.local(birth_position(overview_.replay.peak_event));
    groups =
        make_grouping(view.store(), view.record(), local == 0 ? kNoEvent : local - 1, by).groups;
  }
  // Elsewhere there may be others.
  if (groups.empty() || !groups.back().is_rest) {
    if (groups.size() == Grouping::kMostGroups) groups.pop_back();
    groups.push_back({"", {}, {}, 0, true});
  }
  groups.back().members = 0;  // of the run: not known
  Group undivided;
  undivided.is_rest = undivided.is_undivided = true;
  groups.push_back(undivided);
  return groups;
}

const std::vector<Group>& LongDevice::groups(GroupBy by) const {
  const auto index = static_cast<std::size_t>(by);
  std::call_once(is_grouped_[index], [&] { groups_[index] = choose_groups(by); });
  return groups_[index];
}

// On the axis of time at most a bucket of the pyramid more, on each side.
PyramidTimeline::Range LongDevice::positions_of(const TileAddress& address) const {
  const std::uint64_t count = TimelineScale::bucket_count(address);
  const std::uint64_t first = TimelineScale::first_bucket(address);
  const std::uint64_t end = first + TimelineScale::kTileBuckets;
  if (address.axis == Axis::time)
    return {timeline_->positions_before(scale().time_edge(first, count)).first,
            timeline_->positions_before(scale().time_edge(end, count)).last};
  const std::uint64_t from = scale().position_edge(first, count);
  const std::uint64_t to = std::max(scale().position_edge(end, count), from + 1);
  return {static_cast<Position>(from), static_cast<Position>(to - 1)};
}

// The intervals between checkpoints that a tile touches.
LongDevice::Interval LongDevice::intervals_of(const TileAddress& address) const {
  const PyramidTimeline::Range positions = positions_of(address);
  return {interval_of(positions.first), interval_of(positions.last)};
}

bool LongDevice::is_exact(const TileAddress& address) const {
  const PyramidTimeline::Range positions = positions_of(address);
  // The index is as fine as the tile.
  if (positions.last - positions.first >=
      std::uint64_t{TimelineScale::kTileBuckets} * timeline_->events_per_bucket())
    return false;
  const Interval intervals = intervals_of(address);
  return intervals.last - intervals.first < kMostTileStretches;
}

Result<Tile> LongDevice::tile(GroupBy by, const TileAddress& address) const {
  if (const Status exists = scale().check(address); !exists) return exists.error();
  return is_exact(address) ? exact_tile(by, address) : indexed_tile(by, address);
}

Tile LongDevice::indexed_tile(GroupBy by, const TileAddress& address) const {
  PyramidTimeline::Answer answer = timeline_->tile(address);
  Tile& tile = answer.tile;
  for (const Group& group : groups(by)) {
    std::vector<std::uint64_t>& bytes = tile.group_bytes.emplace_back();
    if (by != GroupBy::source) {
      bytes = group.is_undivided ? tile.max_bytes
                                 : std::vector<std::uint64_t>(tile.max_bytes.size(), 0);
      continue;
    }
    const auto info = std::ranges::find(kMemorySourceTable, group.name, &MemorySourceInfo::name);
    const bool is_source = info != std::end(kMemorySourceTable);
    for (const SourceBytes& sources : answer.sources)
      bytes.push_back(is_source ? sources[info->source] : sources.rounding);
  }
  return std::move(tile);
}

Result<Tile> LongDevice::exact_tile(GroupBy by, const TileAddress& address) const {
  const Interval intervals = intervals_of(address);
  StretchTile tile(scale(), address);
  std::vector<StretchPtr> stretches;
  for (std::size_t interval = intervals.first; interval <= intervals.last; ++interval) {
    const Result<StretchPtr> stretch = open_stretch(interval, interval);
    if (!stretch) return stretch.error();
    stretches.push_back(stretch.value());
  }
  return tile.of(stretches, by);
}

Result<std::vector<PhaseSpan>> LongDevice::read_phases() const {
  const std::scoped_lock lock(*run_.reading);
  return run_.index->spans(overview_.device);
}

Result<const Spans*> LongDevice::spans() const {
  const std::scoped_lock lock(spans_mutex_);
  if (spans_ == nullptr) {
    const Result<std::vector<PhaseSpan>> phases = read_phases();
    if (!phases) return phases.error();
    spans_ = std::make_unique<Spans>(
        store(), phases.value(),
        SpanGround{scale(), [this](std::uint32_t event) { return timeline_->about_when(event); }});
  }
  return static_cast<const Spans*>(spans_.get());
}

Result<TimelineOverlays> LongDevice::overlays() const {
  TimelineOverlays overlays;
  Result<std::vector<OverlayOom>> failures = [&] {
    const std::scoped_lock lock(*run_.reading);
    return run_.index->failures(overview_.device);
  }();
  if (!failures) return failures.error();
  overlays.ooms = std::move(failures).value();
  for (OverlayOom& oom : overlays.ooms) {
    if (!scale().has_times()) oom.time_ns = kUnknownTime;
  }
  const std::uint64_t ooms = overview_.replay.counters.ooms;
  overlays.ooms_left_out = ooms - std::min<std::uint64_t>(ooms, overlays.ooms.size());
  const DeviceFacts& facts = store().facts().device(overview_.device);
  overlays.card_bytes = facts.total_bytes;
  if (!overlays.card_bytes && overview_.card_usage &&
      overview_.card_usage->total_bytes != kUnknownBytes)
    overlays.card_bytes = overview_.card_usage->total_bytes;
  overlays.limit_bytes = stated_limit(facts, overlays.card_bytes);
  return overlays;
}

Result<bool> LongDevice::is_live_at(std::size_t checkpoint, std::uint64_t shown_row) const {
  const std::scoped_lock lock(*run_.reading);
  const Result<DeviceCheckpoint> state = run_.index->checkpoint(overview_.device, checkpoint);
  if (!state) return state.error();
  return std::ranges::any_of(state.value().allocations, [&](const OldAllocation& old) {
    const bool is_older = old.birth_event == kNoEvent;
    return !old.is_pending && shown_row == (is_older ? view::kOlderRow + old.address
                                                     : birth_position(old.birth_event));
  });
}

Result<LongDevice::Lifetime> LongDevice::find(std::uint64_t shown_row) const {
  const bool is_older = shown_row >= view::kOlderRow;
  const Error none{ErrorCode::usage, "there is no such allocation", "", "load the page again"};
  if (!is_older && (shown_row == 0 || shown_row > last_position())) return none;
  const Position born = is_older ? 0 : static_cast<Position>(shown_row);
  const Result<StretchPtr> birth = at(born);
  if (!birth) return birth.error();
  const std::optional<AllocationId> row = birth.value()->find(shown_row);
  if (!row) return none;
  Lifetime lifetime{birth.value(), *row, birth.value(), *row};
  if (!birth.value()->source().goes_on(row->index)) return lifetime;
  // It outlives its stretch: the last checkpoint at which it is live is before its end.
  std::size_t live = interval_of(born) + 1;
  std::size_t end = checkpoints().size() - 1;
  while (live < end) {
    const std::size_t middle = live + (end - live + 1) / 2;
    const Result<bool> is_live = is_live_at(middle, shown_row);
    if (!is_live) return is_live.error();
    if (is_live.value()) {
      live = middle;
    } else {
      end = middle - 1;
    }
  }
  lifetime.death = nullptr;
  if (live + 1 >= checkpoints().size()) return lifetime;
  const Result<StretchPtr> death = open_stretch(live, live);
  if (!death) return death.error();
  if (const std::optional<AllocationId> found = death.value()->find(shown_row)) {
    lifetime.death = death.value();
    lifetime.death_row = *found;
  }
  return lifetime;
}

}  // namespace gpumemprof
