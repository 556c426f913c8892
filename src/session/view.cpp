#include "session/view.h"

#include <algorithm>
#include <numeric>

#include "analysis/compare/compare.h"
#include "analysis/moment/flame.h"
#include "analysis/moment/pool_state.h"
#include "analysis/table/bands.h"
#include "analysis/timeline/overlays.h"
#include "report/json/overview_json.h"
#include "report/text/overview/overview_text.h"

namespace gpumemprof {
namespace {

Error not_there(std::string message) {
  return {ErrorCode::usage, std::move(message), "", "load the page again"};
}

view::AllocationSource allocation_source(const DeviceView& view) {
  return {view.store(), view.record(), view.timeline().times()};
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

}  // namespace

DeviceView::Grouped::Grouped(const DeviceView& view, GroupBy by)
    : grouping(make_grouping(view.store(), view.record(), view.replay().peak_event, by)),
      sums(grouping, view.timeline().allocated(), view.record().allocations) {}

DeviceView::DeviceView(std::shared_ptr<const Recording> recording, std::size_t index)
    : recording_(std::move(recording)), index_(index), timeline_(record()), live_(record()) {
  if (!has_sources(record())) return;
  std::uint64_t all_bytes = 0;
  std::uint64_t known_bytes = 0;
  for (std::size_t row = 0; row < record().allocations.size(); ++row) {
    const std::uint64_t size = record().allocations.size_bytes[row];
    all_bytes += size;
    if (record().labels.source[row] != MemorySource::unknown) known_bytes += size;
  }
  are_sources_known_ = known_bytes >= all_bytes / 2;
}

bool DeviceView::has(GroupBy by) const { return by != GroupBy::source || has_sources(record()); }

std::vector<GroupBy> DeviceView::group_bys() const {
  std::vector<GroupBy> bys;
  for (const GroupBy by : kGroupBys) {
    if (has(by)) bys.push_back(by);
  }
  if (!are_sources_known_ && has(GroupBy::source)) {
    std::erase(bys, GroupBy::source);
    // Where modules are not known either, lines are used.
    bys.insert(bys.end(), GroupBy::source);
    std::erase(bys, GroupBy::line);
    bys.insert(bys.begin(), GroupBy::line);
  }
  return bys;
}

const DeviceView::Grouped& DeviceView::grouped(GroupBy by) const {
  const auto index = static_cast<std::size_t>(by);
  std::call_once(is_grouped_[index],
                 [&] { grouped_[index] = std::make_unique<Grouped>(*this, by); });
  return *grouped_[index];
}

const Spans& DeviceView::spans() const {
  std::call_once(has_spans_, [&] {
    spans_ = std::make_unique<Spans>(store(), record(), phases(), timeline());
  });
  return *spans_;
}

View::View(std::vector<std::shared_ptr<const Recording>> recordings, std::size_t most_devices) {
  for (std::shared_ptr<const Recording>& recording : recordings) {
    File& file = files_.emplace_back();
    file.recording = std::move(recording);
    for (const std::size_t index : devices_of(*file.recording, most_devices))
      file.devices.push_back(std::make_unique<DeviceView>(file.recording, index));
  }
}

void View::prepare_in_background() {
  preparing_ = std::jthread([this](const std::stop_token& stop) {
    for (const File& file : files_) {
      for (const auto& device : file.devices) {
        for (const GroupBy by : device->group_bys()) {
          if (stop.stop_requested()) return;
          static_cast<void>(device->grouped(by));
        }
      }
    }
  });
}

Result<const DeviceView*> View::device(DeviceName name) const {
  if (name.file >= files_.size() || name.device >= files_[name.file].devices.size())
    return not_there("there is no such device");
  return static_cast<const DeviceView*>(files_[name.file].devices[name.device].get());
}

Result<const DeviceView*> View::device_at(DeviceName name, Position position) const {
  Result<const DeviceView*> found = device(name);
  if (found && position > found.value()->timeline().last_position())
    return not_there("there is no such moment");
  return found;
}

Result<const DeviceView*> View::device_by(DeviceName name, GroupBy by) const {
  Result<const DeviceView*> found = device(name);
  if (found && !found.value()->has(by))
    return not_there("the sources of this recording are not known");
  return found;
}

Result<std::string> View::answer(const view::Question& question) const {
  return std::visit([this](const auto& asked) { return answer_to(asked); }, question);
}

Result<std::string> View::answer_to(const view::MetaQuestion& /*question*/) const {
  std::vector<view::FileMeta> metas;
  for (const File& file : files_) {
    view::FileMeta& meta = metas.emplace_back();
    meta.path = file.recording->path();
    meta.store = &file.recording->store();
    meta.completeness = find_completeness(*meta.store);
    for (const auto& device : file.devices) {
      const EventTimes& times = device->timeline().times();
      meta.devices.push_back({device->record().device, device->record().events.size(),
                              device->record().allocations.size(),
                              times.is_known() ? times.since_first(times.last_ns()) : kUnknownTime,
                              device->timeline().deepest_level(), &device->replay(),
                              device->group_bys(), flame_bys(device->record()),
                              has_sources(device->record())});
    }
  }
  return view::meta_json(metas, GPUMEMPROF_VERSION);
}

Result<std::string> View::answer_to(const view::ReportQuestion& question) const {
  constexpr std::size_t kStacksShown = 200;
  if (question.file >= files_.size()) return not_there("there is no such file");
  const Recording& recording = *files_[question.file].recording;
  Result<Overview> overview = recording.overview();
  if (!overview) return overview.error();
  const std::string text =
      overview_text(overview.value(), recording.store(), {86, false, 10, true, false, ""});
  // The page draws these itself; for a long run they are megabytes.
  for (DeviceOverview& device : overview.value().devices) {
    device.sources.series = {};
    device.sources.steps.clear();
    device.sources.phases.clear();
    device.sources.modules.clear();
  }
  return view::report_json(overview_json(overview.value(), recording.store(), kStacksShown), text);
}

Result<std::string> View::answer_to(const view::GroupsQuestion& question) const {
  const Result<const DeviceView*> device = device_by(question.device, question.by);
  if (!device) return device.error();
  return view::groups_json(device.value()->store(), device.value()->grouped(question.by).grouping);
}

Result<std::string> View::answer_to(const view::TileQuestion& question) const {
  const Result<const DeviceView*> device = device_by(question.device, question.by);
  if (!device) return device.error();
  const Result<Tile> tile =
      device.value()->timeline().tile(question.address, device.value()->grouped(question.by).sums);
  if (!tile) return tile.error();
  return view::tile_json(tile.value());
}

Result<std::string> View::answer_to(const view::OverlaysQuestion& question) const {
  const Result<const DeviceView*> found = device(question.device);
  if (!found) return found.error();
  const DeviceView& view = *found.value();
  return view::overlays_json(
      view.store(), first_time_of(view.record()),
      find_overlays(view.store(), view.record(), view.replay(), view.timeline()),
      {view.spans().lane_count(), view.spans().span_count(), view.spans().too_deep()});
}

Result<std::string> View::answer_to(const view::SpansQuestion& question) const {
  const Result<const DeviceView*> found = device(question.device);
  if (!found) return found.error();
  const DeviceView& view = *found.value();
  const Result<SpanTile> tile = view.spans().tile(question.address);
  if (!tile) return tile.error();
  return view::spans_json(first_time_of(view.record()), tile.value());
}

Result<std::string> View::answer_to(const view::GroupBytesQuestion& question) const {
  const Result<const DeviceView*> found = device_at(question.device, question.position);
  if (!found) return found.error();
  const DeviceView& view = *found.value();
  if (!view.has(question.by)) return not_there("the sources of this recording are not known");
  const GroupSums& sums = view.grouped(question.by).sums;
  std::vector<std::uint64_t> bytes(sums.group_count());
  sums.bytes_at(question.position, bytes.data());
  return view::group_bytes_json(bytes);
}

Result<std::string> View::answer_to(const view::MomentQuestion& question) const {
  const Result<const DeviceView*> found = device_at(question.device, question.position);
  if (!found) return found.error();
  return view::moment_json(facts(question.device, question.position));
}

view::MomentFacts View::facts(DeviceName name, Position position) const {
  const DeviceView& view = *device(name).value();
  const EventTimes& times = view.timeline().times();
  view::MomentFacts facts;
  facts.position = position;
  if (times.is_known() && position > 0)
    facts.since_first_ns = times.since_first(times.of_event(position - 1));
  facts.allocated_bytes = view.timeline().allocated().bytes_at(position);
  if (view.store().facts().has_pool()) facts.reserved_bytes = view.timeline().reserved_at(position);
  return facts;
}

Result<std::string> View::answer_to(const view::FlameQuestion& question) const {
  const Result<const DeviceView*> found = device_at(question.device, question.position);
  if (!found) return found.error();
  const DeviceView& view = *found.value();
  FlameOptions options;
  options.by = question.by;
  return view::flame_json(
      view.store(), flame_at(view.store(), view.record(), view.live(), question.position, options),
      question.position);
}

Result<std::string> View::answer_to(const view::SegmentsQuestion& question) const {
  const Result<const DeviceView*> found = device_at(question.device, question.position);
  if (!found) return found.error();
  const DeviceView& view = *found.value();
  if (!view.has(question.by)) return not_there("the sources of this recording are not known");
  return view::segments_json(allocation_source(view), view.grouped(question.by).grouping,
                             pool_state_at(view.record(), moment_of(question.position),
                                           view.live().active_at(question.position)),
                             question.position);
}

Result<std::string> View::answer_to(const view::AllocationsQuestion& question) const {
  const Result<const DeviceView*> found = device(question.device);
  if (!found) return found.error();
  const DeviceView& view = *found.value();
  AllocationQuery query = question.query;
  if (question.by.has_value() != question.group.has_value())
    return not_there("a group needs both a grouping and a number");
  if (question.by) {
    if (!view.has(*question.by)) return not_there("the sources of this recording are not known");
    query.filter.grouping = &view.grouped(*question.by).grouping;
    query.filter.group = *question.group;
  }
  return view::allocations_json(
      allocation_source(view),
      find_allocations(view.store(), view.record(), view.timeline().times(), query));
}

Result<std::string> View::answer_to(const view::AllocationQuestion& question) const {
  const Result<const DeviceView*> found = device(question.device);
  if (!found) return found.error();
  const DeviceView& view = *found.value();
  if (question.row >= view.record().allocations.size())
    return not_there("there is no such allocation");
  return view::allocation_json(allocation_source(view), AllocationId(question.row));
}

Result<std::string> View::answer_to(const view::BandsQuestion& question) const {
  const Result<const DeviceView*> found = device(question.device);
  if (!found) return found.error();
  const DeviceView& view = *found.value();
  return view::allocations_json(allocation_source(view), largest_bands(view.record(), question.from,
                                                                       question.to, question.most));
}

Result<std::string> View::answer_to(const view::CompareQuestion& question) const {
  constexpr std::size_t kGroupsShown = 300;
  const auto side = [&](DeviceName name, Position position) -> Result<ComparedSide> {
    const Result<const DeviceView*> found = device_at(name, position);
    if (!found) return found.error();
    const DeviceView& view = *found.value();
    if (!view.has(question.by)) return not_there("the sources of this recording are not known");
    return ComparedSide{&view.store(), &view.record(), &view.live(), position};
  };
  const Result<ComparedSide> first = side(question.first, question.first_position);
  if (!first) return first.error();
  const Result<ComparedSide> second = side(question.second, question.second_position);
  if (!second) return second.error();
  return view::compare_json(*first.value().store, *second.value().store,
                            gpumemprof::compare(first.value(), second.value(), question.by),
                            kGroupsShown);
}

}  // namespace gpumemprof
