#include "analysis/overview/overview.h"

#include "analysis/advice/completion/completion.h"
#include "analysis/advice/inference/inference.h"
#include "analysis/overview/when.h"

namespace gpumemprof {
namespace {

Moment moment_of(const AskedMoment& asked, const DeviceReplay& replay) {
  switch (asked.kind) {
    case AskedMoment::Kind::end:
      return Moment::end();
    case AskedMoment::Kind::event:
    case AskedMoment::Kind::step:
      return Moment::after(asked.event);
    case AskedMoment::Kind::peak:
      break;
  }
  return replay.peak_event == kNoEvent ? Moment::start() : Moment::after(replay.peak_event);
}

std::uint32_t event_of(const AskedMoment& asked, const DeviceReplay& replay) {
  if (asked.kind == AskedMoment::Kind::peak) return replay.peak_event;
  return asked.kind == AskedMoment::Kind::end ? kNoEvent : asked.event;
}

MemoryTotals totals_of(const FreeMemory& memory) {
  const std::uint64_t active = memory.allocated_bytes + memory.waiting_bytes;
  return {memory.allocated_bytes, active, memory.reserved_bytes, active - memory.rounding_bytes};
}

Result<DeviceOverview> overview_of(const Store& store, const DeviceRecord& record,
                                   const DeviceReplay& replay, const std::vector<PhaseSpan>& phases,
                                   const std::string& path, AskedMoment asked) {
  if (asked.kind == AskedMoment::Kind::peak && !replay.has_history)
    asked.kind = AskedMoment::Kind::end;
  DeviceOverview overview;
  overview.device = record.device;
  overview.name = store.device_name(record.device);
  overview.sources = find_sources(store, record, replay, record.labels, phases);
  if (asked.kind == AskedMoment::Kind::step) {
    const Result<std::uint32_t> event =
        peak_of_step(path, overview.name, overview.sources.steps, asked.step);
    if (!event) return event.error();
    asked.event = event.value();
  }
  overview.events = record.events.size();
  if (!record.events.empty()) {
    overview.duration_ns =
        when_of(store, record, phases, static_cast<std::uint32_t>(record.events.size() - 1))
            .since_start_ns;
  }
  overview.replay = replay;
  overview.peak_when = when_of(store, record, phases, replay.peak_event);
  overview.asked = asked;
  overview.asked_when = when_of(store, record, phases, event_of(asked, replay));
  const Moment moment = moment_of(asked, replay);
  look_at_moment(store, record, moment, overview);
  overview.card_usage = find_card_usage(store, record);
  overview.growth = find_growth(store, record, phases);
  overview.leaks = find_device_leaks(store, record, replay, phases);
  overview.ooms = find_ooms(store, record, replay, kOomsShown);
  if (!overview.ooms.empty()) {
    const bool is_known = is_need_known(store, record, phases, overview.sources.kind);
    for (OomReport& oom : overview.ooms) oom.is_need_known = is_known;
  }
  for (OomReport& oom : overview.ooms) {
    overview.oom_whens.push_back(when_of(store, record, phases, oom.event));
    blame_growth(oom, overview.growth, overview.oom_whens.back().step);
    blame_leaks(oom, *overview.leaks, record.events.size());
  }
  return overview;
}

std::string device_names(const Store& store) {
  std::string names;
  for (const auto& device : store.devices())
    names += (names.empty() ? "" : ", ") + store.device_name(device->device);
  return names;
}

}  // namespace

void look_at_moment(const Store& store, const DeviceRecord& record, Moment moment,
                    DeviceOverview& overview) {
  overview.live = live_at(record, moment);
  overview.live_lines = live_by_user_line(overview.live, store);
  overview.tags = find_tags(record, moment);
  overview.memory = free_memory_at(record, store, moment);
  overview.pins = find_pins(record, store, moment);
  overview.totals = totals_of(overview.memory);
  overview.asked_sources = sources_at(record, record.labels, moment);
}

bool is_need_known(const Store& store, const DeviceRecord& record,
                   const std::vector<PhaseSpan>& phases, RunKind kind) {
  return kind == RunKind::inference ? !is_inference_cut_short(store, record)
                                    : complete_run(store, record, phases).why_not.empty();
}

Result<std::uint32_t> peak_of_step(const std::string& path, const std::string& device,
                                   const std::vector<StepFigures>& steps, std::uint32_t step) {
  const auto found = std::ranges::find(steps, step, &StepFigures::step);
  if (found != steps.end() && found->peak_event != kNoEvent) return found->peak_event;
  const auto first =
      std::ranges::find_if(steps, [](const StepFigures& one) { return one.step > 0; });
  const std::string known = first == steps.end()
                                ? "it has no steps; name an event"
                                : "its steps are " + std::to_string(first->step) + " to " +
                                      std::to_string(steps.back().step) + "; name another one";
  return Error{ErrorCode::usage, "there is no step " + std::to_string(step) + " on " + device, path,
               known + ", or --at end"};
}

Error no_such_event(const std::string& path, const std::string& device, std::uint32_t event,
                    std::uint64_t events) {
  const std::string range =
      events == 0 ? "it has no events" : "its events are 0 to " + std::to_string(events - 1);
  return {ErrorCode::usage, "there is no event " + std::to_string(event) + " on " + device, path,
          range + "; name another one, or --at end"};
}

Error no_such_device(const std::string& path, DeviceIndex device, const std::string& known) {
  return {
      ErrorCode::usage,
      "there is no device " + (device == kHostDevice ? "host" : std::to_string(device)) + " in it",
      path, known.empty() ? "it holds no device" : "it holds " + known};
}

Status check_device(const Store& store, const std::string& path,
                    std::optional<DeviceIndex> device) {
  const auto is_it = [&](const auto& record) { return record->device == *device; };
  if (!device || std::ranges::any_of(store.devices(), is_it)) return Done{};
  return no_such_device(path, *device, device_names(store));
}

Status check_device_kind(const std::string& name, const Store& store, const std::string& path) {
  const std::string kind = name.substr(0, name.find(':'));
  const bool has_kind = name.find(':') != std::string::npos || kind == "cpu";
  if (!has_kind || kind == store.origin().device_type) return Done{};
  const std::string known = device_names(store);
  return Error{ErrorCode::usage, "there is no device " + name + " in it", path,
               known.empty() ? "it holds no device" : "it holds " + known};
}

Result<Overview> make_overview(const Store& store, const std::vector<DeviceReplay>& replays,
                               const std::vector<std::vector<PhaseSpan>>& phases, std::string path,
                               const OverviewOptions& options) {
  Overview overview;
  overview.path = std::move(path);
  overview.events = store.event_count();
  if (const Status known = check_device(store, overview.path, options.device); !known)
    return known.error();
  for (std::size_t index = 0; index < store.devices().size(); ++index) {
    const DeviceRecord& record = *store.devices()[index];
    overview.allocations += replays[index].counters.allocations;
    overview.frees += replays[index].counters.frees;
    if (options.device && *options.device != record.device) continue;
    if (options.at.kind == AskedMoment::Kind::event && options.at.event >= record.events.size()) {
      return no_such_event(overview.path, store.device_name(record.device), options.at.event,
                           record.events.size());
    }
    Result<DeviceOverview> device =
        overview_of(store, record, replays[index], phases[index], overview.path, options.at);
    if (!device) return device.error();
    overview.devices.push_back(std::move(device).value());
  }
  return overview;
}

}  // namespace gpumemprof
