#include "session/view.h"

#include <algorithm>
#include <numeric>

#include "analysis/compare/compare.h"
#include "analysis/moment/flame.h"
#include "analysis/moment/pool_state.h"
#include "analysis/timeline/overlays.h"
#include "report/json/overview_json.h"
#include "report/text/overview/overview_text.h"
#include "report/view/answers/answers_json.h"
#include "session/advice/tried_run.h"

namespace gpumemprof {
namespace {

Error not_there(std::string message) {
  return {ErrorCode::usage, std::move(message), "", "load the page again"};
}

// In their own order.
std::vector<std::size_t> devices_of(const Recording& recording, std::size_t most) {
  std::vector<std::size_t> chosen(recording.replays().size());
  std::iota(chosen.begin(), chosen.end(), std::size_t{0});
  if (chosen.size() <= most) return chosen;
  const auto peak = [&](std::size_t index) {
    const DeviceReplay& replay = recording.replays()[index];
    return std::max(replay.peak.allocated_bytes, replay.end.totals.allocated_bytes);
  };
  std::stable_sort(chosen.begin(), chosen.end(),
                   [&](std::size_t a, std::size_t b) { return peak(a) > peak(b); });
  chosen.resize(most);
  std::sort(chosen.begin(), chosen.end());
  return chosen;
}

// An allocation that may be freed in another stretch than it was made in.
std::string lifetime_json(const LongDevice::Lifetime& found, const TimelineScale& scale) {
  const view::AllocationSource source = found.birth->source();
  if (found.death == found.birth) return view::allocation_json(source, found.row);
  const auto birth = static_cast<std::int64_t>(source.shown_birth(found.row.index));
  const std::uint32_t birth_event = source.record.allocations.alloc_event[found.row.index];
  const auto last = static_cast<std::int64_t>(scale.positions) - 1;
  view::AllocationEnd end;
  std::int64_t end_ns = scale.last_ns;
  // A part of the run has none where one of its events has none.
  bool has_times = scale.has_times() && source.times.is_known();
  if (found.death != nullptr) {
    const view::AllocationSource there = found.death->source();
    has_times = has_times && there.times.is_known();
    const AllocationColumns& rows = there.record.allocations;
    const std::uint32_t freed = rows.free_requested_event[found.death_row.index];
    end.death = there.shown_death(freed);
    end.reusable = there.shown_death(rows.free_completed_event[found.death_row.index]);
    if (has_times && freed != kNoEvent) {
      end_ns = there.times.of_event(freed);
      end.death_ns = there.times.since_first(end_ns);
    }
  }
  end.lifetime = has_times ? end_ns - source.times.of_event(birth_event)
                           : std::int64_t{end.death.value_or(static_cast<Position>(last))} - birth;
  return view::allocation_json(source, found.row, &end);
}

}  // namespace

View::View(std::vector<ViewedRun> runs, std::size_t most_devices) {
  for (ViewedRun& run : runs) {
    File& file = files_.emplace_back(File{std::move(run), {}, std::make_unique<ReportAnswer>()});
    if (file.run.indexed != nullptr) {
      for (const auto& device : file.run.indexed->devices())
        file.devices.push_back({nullptr, device.get(), advice_on_peak(file.run.indexed, *device)});
      continue;
    }
    for (const std::size_t index : devices_of(*file.run.whole, most_devices)) {
      const DeviceIndex device = file.run.whole->store().devices()[index]->device;
      file.devices.push_back({std::make_unique<DeviceView>(file.run.whole, index), nullptr,
                              advice_on(file.run.whole, device)});
    }
  }
}

void View::prepare_in_background() {
  preparing_ = std::jthread([this](const std::stop_token& stop) {
    for (std::size_t number = 0; number < files_.size(); ++number) {
      const File& file = files_[number];
      // The bands and the verdict of the first screen come first.
      if (!file.devices.empty() && file.devices.front().whole != nullptr)
        static_cast<void>(file.devices.front().whole->grouped(group_bys({number, 0}).front()));
      if (stop.stop_requested()) return;
      static_cast<void>(answer_to(view::ReportQuestion{number}));
      for (const Device& device : file.devices) {
        // Of a long run the page itself asks for what it draws first.
        if (device.whole == nullptr) continue;
        for (const GroupBy by : device.whole->group_bys()) {
          if (stop.stop_requested()) return;
          static_cast<void>(device.whole->grouped(by));
        }
      }
    }
  });
}

std::vector<GroupBy> View::group_bys(DeviceName name) const {
  const Device& device = find(name);
  return device.whole != nullptr ? device.whole->group_bys() : device.indexed->group_bys();
}

std::vector<FlameBy> View::flame_bys(DeviceName name) const {
  const Device& device = find(name);
  return device.whole != nullptr ? gpumemprof::flame_bys(device.whole->record())
                                 : device.indexed->flame_bys();
}

TimelineScale View::scale(DeviceName name) const {
  const Device& device = find(name);
  return device.whole != nullptr ? device.whole->timeline().scale() : device.indexed->scale();
}

bool View::has(DeviceName name, GroupBy by) const {
  const Device& device = find(name);
  return device.whole == nullptr || device.whole->has(by);
}

const DeviceReplay& View::replay(DeviceName name) const {
  const Device& device = find(name);
  return device.whole != nullptr ? device.whole->replay() : device.indexed->overview().replay;
}

std::string View::device_name(DeviceName name) const {
  const Device& device = find(name);
  return device.whole != nullptr ? device.whole->store().device_name(device.whole->record().device)
                                 : device.indexed->overview().name;
}

Status View::check(DeviceName name) const {
  if (name.file >= files_.size() || name.device >= files_[name.file].devices.size())
    return not_there("there is no such device");
  return Done{};
}

Status View::check(DeviceName name, GroupBy by) const {
  Status exists = check(name);
  if (exists && !has(name, by)) return not_there("the sources of this recording are not known");
  return exists;
}

Result<ViewedPart> View::part_at(DeviceName name, Position position) const {
  if (const Status exists = check(name); !exists) return exists.error();
  if (position >= scale(name).positions) return not_there("there is no such moment");
  const Device& device = find(name);
  if (device.whole != nullptr) return ViewedPart{device.whole.get(), nullptr};
  const Result<StretchPtr> stretch = device.indexed->at(position);
  if (!stretch) return stretch.error();
  return ViewedPart{&stretch.value()->view(), stretch.value()};
}

Result<ViewedPart> View::part_over(DeviceName name, Position from, Position to) const {
  if (const Status exists = check(name); !exists) return exists.error();
  const Device& device = find(name);
  if (device.whole != nullptr) return ViewedPart{device.whole.get(), nullptr};
  const Result<StretchPtr> stretch = device.indexed->over(from, to);
  if (!stretch) return stretch.error();
  return ViewedPart{&stretch.value()->view(), stretch.value()};
}

// Puts the positions of the part in place of those of the run.
Result<ViewedPart> View::part_for(DeviceName name, AllocationFilter& filter) const {
  if (const Status exists = check(name); !exists) return exists.error();
  if (find(name).whole != nullptr) return ViewedPart{find(name).whole.get(), nullptr};
  const auto end = static_cast<Position>(scale(name).positions);
  if (filter.live_at && *filter.live_at >= end) return not_there("there is no such moment");
  const Position from = std::min(filter.from.value_or(0), end - 1);
  const Position to = std::min(filter.to.value_or(end), end);
  Result<ViewedPart> part = filter.live_at ? part_at(name, *filter.live_at)
                                           : part_over(name, from, std::max(to, from + 1));
  if (!part) return part;
  if (filter.live_at) {
    filter.live_at = part.value().local(*filter.live_at);
    filter.from.reset();
    filter.to.reset();
    return part;
  }
  if (filter.from) filter.from = part.value().local(from);
  if (filter.to) filter.to = part.value().local(to);
  return part;
}

Result<std::string> View::answer(const view::Question& question, LongWork* work) const {
  return std::visit(
      [&](const auto& asked) {
        if constexpr (requires { answer_to(asked, work); }) {
          return answer_to(asked, work);
        } else {
          return answer_to(asked);
        }
      },
      question);
}

view::DeviceMeta View::meta_of(DeviceName name) const {
  const Device& device = find(name);
  view::DeviceMeta meta;
  meta.events = scale(name).positions - 1;
  meta.deepest_level = scale(name).deepest_level();
  meta.replay = &replay(name);
  meta.group_bys = group_bys(name);
  meta.flame_bys = flame_bys(name);
  if (const TimelineScale axis = scale(name); axis.has_times())
    meta.duration_ns = axis.last_ns - axis.first_ns;
  if (device.whole != nullptr) {
    const EventTimes& times = device.whole->timeline().times();
    if (times.is_known()) meta.duration_ns = times.since_first(times.last_ns());
    meta.device = device.whole->record().device;
    meta.allocations = device.whole->record().allocations.size();
    meta.has_sources = has_sources(device.whole->record());
    return meta;
  }
  meta.device = device.indexed->overview().device;
  meta.allocations = replay(name).counters.allocations;
  meta.has_sources = true;
  meta.is_long = true;
  meta.index_events = device.indexed->timeline().events_per_bucket();
  meta.listed_events = LongDevice::kMostListedEvents;
  return meta;
}

Result<std::string> View::answer_to(const view::MetaQuestion& /*question*/) const {
  std::vector<view::FileMeta> metas;
  for (std::size_t number = 0; number < files_.size(); ++number) {
    const ViewedRun& run = files_[number].run;
    view::FileMeta& meta = metas.emplace_back();
    meta.path = run.path();
    meta.store = &run.store();
    meta.completeness = run.whole != nullptr ? find_completeness(*meta.store)
                                             : run.indexed->overview().completeness;
    for (std::size_t device = 0; device < files_[number].devices.size(); ++device)
      meta.devices.push_back(meta_of({number, device}));
  }
  return view::meta_json(metas, GPUMEMPROF_VERSION);
}

Result<std::string> View::answer_to(const view::ReportQuestion& question) const {
  if (question.file >= files_.size()) return not_there("there is no such file");
  const File& file = files_[question.file];
  std::call_once(file.report->is_made, [&] { file.report->made = make_report(file.run); });
  return *file.report->made;
}

Result<std::string> View::make_report(const ViewedRun& run) {
  constexpr std::size_t kStacksShown = 200;
  Result<Overview> overview =
      run.whole != nullptr ? run.whole->overview() : Result<Overview>(run.indexed->overview());
  if (!overview) return overview.error();
  const std::string text =
      overview_text(overview.value(), run.store(), {86, false, 10, true, false, ""});
  // The page draws these itself; for a long run they are megabytes.
  for (DeviceOverview& device : overview.value().devices) {
    device.sources.series = {};
    device.sources.steps.clear();
    device.sources.phases.clear();
    device.sources.modules.clear();
  }
  return view::report_json(overview_json(overview.value(), run.store(), kStacksShown), text,
                           view::verdicts_json(overview.value(), run.store()));
}

Result<std::string> View::answer_to(const view::GroupsQuestion& question) const {
  if (const Status exists = check(question.device, question.by); !exists) return exists.error();
  const Device& device = find(question.device);
  if (device.whole != nullptr)
    return view::groups_json(device.whole->store(), device.whole->grouped(question.by).grouping);
  Grouping grouping;
  grouping.by = question.by;
  grouping.groups = device.indexed->groups(question.by);
  return view::groups_json(device.indexed->store(), grouping);
}

Result<std::string> View::answer_to(const view::TileQuestion& question) const {
  if (const Status exists = check(question.device, question.by); !exists) return exists.error();
  const Device& device = find(question.device);
  const Result<Tile> tile =
      device.whole != nullptr
          ? device.whole->timeline().tile(question.address, device.whole->grouped(question.by).sums)
          : device.indexed->tile(question.by, question.address);
  if (!tile) return tile.error();
  return view::tile_json(tile.value());
}

Result<std::string> View::answer_to(const view::OverlaysQuestion& question) const {
  if (const Status exists = check(question.device); !exists) return exists.error();
  const Device& device = find(question.device);
  const auto counts = [](const Spans& spans) {
    return view::SpanCounts{spans.lane_count(), spans.span_count(), spans.too_deep()};
  };
  if (device.whole != nullptr) {
    const DeviceView& view = *device.whole;
    return view::overlays_json(
        view.store(), first_time_of(view.record()),
        find_overlays(view.store(), view.record(), view.replay(), view.timeline()),
        counts(view.spans()));
  }
  const Result<TimelineOverlays> overlays = device.indexed->overlays();
  if (!overlays) return overlays.error();
  const Result<const Spans*> spans = device.indexed->spans();
  if (!spans) return spans.error();
  return view::overlays_json(device.indexed->store(), device.indexed->scale().first_ns,
                             overlays.value(), counts(*spans.value()));
}

Result<std::string> View::answer_to(const view::SpansQuestion& question) const {
  if (const Status exists = check(question.device); !exists) return exists.error();
  const Device& device = find(question.device);
  const Result<const Spans*> spans =
      device.whole != nullptr ? &device.whole->spans() : device.indexed->spans();
  if (!spans) return spans.error();
  const Result<SpanTile> tile = spans.value()->tile(question.address);
  if (!tile) return tile.error();
  return view::spans_json(device.whole != nullptr ? first_time_of(device.whole->record())
                                                  : device.indexed->scale().first_ns,
                          tile.value());
}

Result<std::string> View::answer_to(const view::GroupBytesQuestion& question) const {
  const Result<ViewedPart> part = part_at(question.device, question.position);
  if (!part) return part.error();
  if (const Status exists = check(question.device, question.by); !exists) return exists.error();
  const GroupSums& sums = part.value().view->grouped(question.by).sums;
  std::vector<std::uint64_t> bytes(sums.group_count());
  sums.bytes_at(part.value().local(question.position), bytes.data());
  return view::group_bytes_json(bytes);
}

Result<std::string> View::answer_to(const view::MomentQuestion& question) const {
  const Result<view::MomentFacts> found = facts(question.device, question.position);
  if (!found) return found.error();
  return view::moment_json(found.value());
}

Result<view::MomentFacts> View::facts(DeviceName name, Position position) const {
  const Result<ViewedPart> part = part_at(name, position);
  if (!part) return part.error();
  const DeviceView& view = *part.value().view;
  const Position local = part.value().local(position);
  const EventTimes& times = view.timeline().times();
  view::MomentFacts facts;
  facts.position = position;
  if (times.is_known() && position > 0)
    facts.since_first_ns = times.since_first(times.of_event(local - 1));
  facts.allocated_bytes = view.timeline().allocated().bytes_at(local);
  if (view.store().facts().has_pool()) facts.reserved_bytes = view.timeline().reserved_at(local);
  return facts;
}

Result<std::string> View::answer_to(const view::FlameQuestion& question) const {
  const Result<ViewedPart> part = part_at(question.device, question.position);
  if (!part) return part.error();
  const DeviceView& view = *part.value().view;
  FlameOptions options;
  options.by = question.by;
  return view::flame_json(view.store(),
                          flame_at(view.store(), view.record(), view.live(),
                                   part.value().local(question.position), options),
                          question.position);
}

Result<std::string> View::answer_to(const view::SegmentsQuestion& question) const {
  const Result<ViewedPart> part = part_at(question.device, question.position);
  if (!part) return part.error();
  if (const Status exists = check(question.device, question.by); !exists) return exists.error();
  const DeviceView& view = *part.value().view;
  const Position local = part.value().local(question.position);
  return view::segments_json(
      part.value().source(), view.grouped(question.by).grouping,
      pool_state_at(view.record(), moment_of(local), view.live().active_at(local)),
      question.position);
}

Result<std::string> View::answer_to(const view::AllocationsQuestion& question) const {
  AllocationQuery query = question.query;
  const Result<ViewedPart> part = part_for(question.device, query.filter);
  if (!part) return part.error();
  const DeviceView& view = *part.value().view;
  if (question.by.has_value() != question.group.has_value())
    return not_there("a group needs both a grouping and a number");
  if (question.by) {
    if (!view.has(*question.by)) return not_there("the sources of this recording are not known");
    query.filter.grouping = &view.grouped(*question.by).grouping;
    query.filter.group = *question.group;
  }
  return view::allocations_json(
      part.value().source(),
      find_allocations(view.store(), view.record(), view.timeline().times(), query));
}

Result<std::string> View::answer_to(const view::AllocationQuestion& question) const {
  if (const Status exists = check(question.device); !exists) return exists.error();
  if (const LongDevice* indexed = find(question.device).indexed) {
    const Result<LongDevice::Lifetime> found = indexed->find(question.row);
    if (!found) return found.error();
    return lifetime_json(found.value(), indexed->scale());
  }
  const DeviceView& view = *find(question.device).whole;
  if (question.row >= view.record().allocations.size())
    return not_there("there is no such allocation");
  return view::allocation_json(ViewedPart{&view, nullptr}.source(), AllocationId(question.row));
}

Result<std::string> View::answer_to(const view::CompareQuestion& question) const {
  constexpr std::size_t kGroupsShown = 300;
  // The parts stay open until they are compared.
  const auto side = [&](DeviceName name, Position position) -> Result<ViewedPart> {
    if (const Status exists = check(name, question.by); !exists) return exists.error();
    return part_at(name, position);
  };
  const Result<ViewedPart> first = side(question.first, question.first_position);
  if (!first) return first.error();
  const Result<ViewedPart> second = side(question.second, question.second_position);
  if (!second) return second.error();
  const auto compared = [](const ViewedPart& part, Position position) {
    return ComparedSide{&part.view->store(), &part.view->record(), &part.view->live(),
                        part.local(position)};
  };
  return view::compare_json(
      first.value().view->store(), second.value().view->store(),
      gpumemprof::compare(compared(first.value(), question.first_position),
                          compared(second.value(), question.second_position), question.by),
      question.by, kGroupsShown);
}

}  // namespace gpumemprof
