#include "report/json/overview_json.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "report/json/card_usage_json.h"
#include "report/json/completeness_json.h"
#include "report/json/event_json.h"
#include "report/json/growth_json.h"
#include "report/json/sources_json.h"
#include "report/json/tags_json.h"
#include "report/leaks/leaks_summary_json.h"

namespace gpumemprof {
namespace {

using Json = nlohmann::ordered_json;

// Text from a file is valid UTF-8 by the time it is stored, but a path from the command line need
// not be.
std::string dump_value(const Json& json) {
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

bool is_list_of_numbers(const Json& json) {
  return json.is_array() &&
         std::all_of(json.begin(), json.end(), [](const Json& value) { return value.is_number(); });
}

// Indented for people, but a list of numbers on one line: series have thousands.
void dump_to(const Json& json, std::size_t indent, std::string& out) {
  if (!json.is_structured() || json.empty() || is_list_of_numbers(json)) {
    out += dump_value(json);
    return;
  }
  const std::string margin(indent + 2, ' ');
  out += json.is_object() ? '{' : '[';
  bool is_first = true;
  for (const auto& [key, value] : json.items()) {
    out += (is_first ? "\n" : ",\n") + margin;
    if (json.is_object()) out += dump_value(Json(key)) + ": ";
    dump_to(value, indent + 2, out);
    is_first = false;
  }
  out += "\n" + std::string(indent, ' ') + (json.is_object() ? '}' : ']');
}

std::string dump(const Json& json) {
  std::string out;
  dump_to(json, 0, out);
  return out;
}

Json bytes_or_null(std::uint64_t bytes) { return bytes == kUnknownBytes ? Json() : Json(bytes); }
Json time_us_or_null(std::int64_t time_ns) {
  return time_ns == kUnknownTime ? Json() : Json(time_ns / 1000);
}
Json exact_from(const DeviceReplay& replay) {
  return replay.exact_from_event ? Json(*replay.exact_from_event) : Json();
}

Json frame_json(const Store& store, FrameId id) {
  const Frame& frame = store.frame(id);
  return {{"name", store.text(frame.name)}, {"file", store.text(frame.file)}, {"line", frame.line}};
}

Json stack_json(const Store& store, StackId stack) {
  Json frames = Json::array();
  for (const FrameId id : store.stacks().frames_of(stack)) frames.push_back(frame_json(store, id));
  return frames;
}

Json texts_json(const Store& store, const std::vector<StringId>& ids) {
  Json texts = Json::array();
  for (const StringId id : ids) texts.push_back(store.text(id));
  return texts;
}

Json live_json(const Store& store, const LiveSet& live, std::size_t top) {
  Json groups = Json::array();
  for (std::size_t index = 0; index < std::min(top, live.groups.size()); ++index) {
    const LiveGroup& group = live.groups[index];
    groups.push_back({{"stack", stack_json(store, group.stack)},
                      {"is_backward", group.is_backward},
                      {"bytes", group.bytes},
                      {"blocks", group.blocks},
                      {"tags", texts_json(store, group.tags)}});
  }
  return groups;
}

Json free_json(const Store& store, const FreeMemory& memory) {
  Json streams = Json::array();
  for (const StreamShare& share : memory.streams) {
    streams.push_back({{"stream", store.stream_handle(share.stream)},
                       {"reserved_bytes", share.reserved_bytes},
                       {"free_bytes", share.free_bytes},
                       {"largest_free_bytes", share.largest_free_bytes}});
  }
  return {{"free_bytes", memory.free_bytes},
          {"waiting_bytes", memory.waiting_bytes},
          {"hole_bytes", memory.hole_bytes},
          {"holes", memory.holes},
          {"largest_hole_bytes", memory.largest_hole_bytes},
          {"whole_segment_bytes", memory.whole_segment_bytes},
          {"whole_segments", memory.whole_segments},
          {"largest_free_bytes", memory.largest_free_bytes},
          {"small_pool_bytes", memory.small_pool_bytes},
          {"private_pool_bytes", memory.private_pool_bytes},
          {"rounding_bytes", memory.rounding_bytes},
          {"streams", streams}};
}

constexpr std::size_t kPinnedSegmentsListed = 100;
constexpr std::size_t kStepsListed = 1000;

Json pins_json(const Store& store, const PinReport& pins) {
  Json segments = Json::array();
  for (const PinnedSegment& segment : pins.segments) {
    if (segments.size() == kPinnedSegmentsListed) break;
    segments.push_back({{"address", segment.address},
                        {"size_bytes", segment.size_bytes},
                        {"free_bytes", segment.free_bytes},
                        {"blocks", segment.blocks},
                        {"pin_bytes", segment.pin_bytes},
                        {"pin_event", event_or_null(segment.pin_event)},
                        {"pin_stack", stack_json(store, segment.pin_stack)}});
  }
  Json lines = Json::array();
  for (const PinningLine& line : pins.lines) {
    Json entry = {{"segments", line.segments},
                  {"free_bytes", line.free_bytes},
                  {"pin_bytes", line.pin_bytes}};
    entry["frame"] = line.frame.is_none() ? Json() : frame_json(store, line.frame);
    lines.push_back(entry);
  }
  return {{"shares",
           {{"free_bytes", pins.shares.free_bytes},
            {"other_stream_bytes", pins.shares.other_stream_bytes},
            {"pinned_bytes", pins.shares.pinned_bytes},
            {"surplus_bytes", pins.shares.surplus_bytes}}},
          {"lines", lines},
          {"segments", segments}};
}

Json moment_json(const AskedMoment& asked) {
  switch (asked.kind) {
    case AskedMoment::Kind::peak:
      return "peak";
    case AskedMoment::Kind::end:
      return "end";
    case AskedMoment::Kind::event:
    case AskedMoment::Kind::step:
      break;
  }
  return asked.event;
}

Json when_json(const Store& store, const When& when) {
  return {{"event_index", event_or_null(when.event)},
          {"time_us", time_us_or_null(when.time_ns)},
          {"since_start_us", time_us_or_null(when.since_start_ns)},
          {"step", when.step ? Json(*when.step) : Json()},
          {"phase", when.phase ? Json(phase_name(*when.phase)) : Json()},
          {"annotation", when.annotation.is_none() ? Json() : Json(store.text(when.annotation))}};
}

// CPU tensors come straight from the C library: there is no pool that could reserve anything.
Json reserved_json(const Store& store, std::uint64_t bytes) {
  return store.facts().has_pool() ? Json(bytes) : Json();
}

Json totals_json(const Store& store, const MemoryTotals& totals) {
  return {{"allocated_bytes", totals.allocated_bytes},
          {"reserved_bytes", reserved_json(store, totals.reserved_bytes)},
          {"requested_bytes", totals.requested_bytes}};
}

Json peak_json(const Store& store, const DeviceOverview& device) {
  if (!device.replay.has_history) {
    Json unknown = when_json(store, When());
    for (const char* key : {"allocated_bytes", "reserved_bytes", "requested_bytes"})
      unknown[key] = nullptr;
    return unknown;
  }
  Json peak = totals_json(store, device.replay.peak);
  peak.update(when_json(store, device.peak_when));
  return peak;
}

Json end_json(const Store& store, const EndState& end) {
  return {{"allocated_bytes", end.totals.allocated_bytes},
          {"active_bytes", end.totals.active_bytes},
          {"reserved_bytes", reserved_json(store, end.totals.reserved_bytes)},
          {"requested_bytes", end.totals.requested_bytes},
          {"inactive_split_bytes", end.inactive_split_bytes},
          {"segments", end.segments},
          {"expandable_runs", end.mapped_runs}};
}

Json counters_json(const DeviceReplay& replay) {
  const EventCounters& counters = replay.counters;
  if (!replay.has_history) {
    return {{"allocations", nullptr},   {"frees", nullptr},        {"segment_allocs", nullptr},
            {"segment_frees", nullptr}, {"segment_maps", nullptr}, {"segment_unmaps", nullptr},
            {"alloc_retries", nullptr}, {"ooms", nullptr}};
  }
  return {{"allocations", counters.allocations},
          {"frees", counters.frees},
          {"segment_allocs", counters.segment_allocs},
          {"segment_frees", counters.segment_frees},
          {"segment_maps", counters.segment_maps},
          {"segment_unmaps", counters.segment_unmaps},
          {"alloc_retries", counters.alloc_retries ? Json(*counters.alloc_retries) : Json()},
          {"ooms", counters.ooms}};
}

Json range_json(const std::optional<ByteRange>& range) {
  return range ? Json({{"low", range->low}, {"high", range->high}}) : Json();
}

Json known_json(const std::optional<std::uint64_t>& bytes) { return bytes ? Json(*bytes) : Json(); }

Json verdict_json(const OomReport& oom) {
  Json contributing = Json::array();
  for (const OomCause cause : oom.contributing) contributing.push_back(oom_cause_name(cause));
  Json doubts = Json::array();
  for (const OomDoubt doubt : oom.doubts) doubts.push_back(oom_doubt_name(doubt));
  Json remedy_doubts = Json::array();
  for (const OomDoubt doubt : oom.remedy_doubts) remedy_doubts.push_back(oom_doubt_name(doubt));
  return {{"cause", oom_cause_name(oom.cause)},
          {"is_proven", oom.is_proven()},
          {"doubts", doubts},
          {"contributing", contributing},
          {"short_bytes", range_json(oom.short_bytes)},
          {"limit_bytes", range_json(oom.limit)},
          {"is_limit_stated", oom.limit ? Json(oom.is_limit_stated) : Json()},
          {"card_bytes", known_json(oom.card_bytes)},
          {"other_processes_bytes", known_json(oom.other_processes_bytes)},
          {"outside_pool_bytes", known_json(oom.outside_bytes)},
          {"surviving_settings", oom.surviving_confs},
          {"remedy_doubts", remedy_doubts}};
}

Json ooms_json(const Store& store, const DeviceOverview& device) {
  Json ooms = Json::array();
  for (std::size_t index = 0; index < device.ooms.size(); ++index) {
    const OomReport& oom = device.ooms[index];
    Json entry = when_json(store, device.oom_whens[index]);
    entry["wanted_bytes"] = oom.wanted_bytes;
    entry["device_free_bytes"] = bytes_or_null(oom.device_free_bytes);
    entry["allocated_bytes"] = oom.memory.allocated_bytes;
    entry["reserved_bytes"] = oom.memory.reserved_bytes;
    entry["free_in_pool_bytes"] = oom.memory.free_bytes;
    entry["largest_free_bytes"] = oom.largest_free_bytes;
    entry.update(verdict_json(oom));
    entry["stack"] = stack_json(store, oom.stack);
    ooms.push_back(entry);
  }
  return ooms;
}

Json device_json(const Store& store, const DeviceOverview& device, std::size_t top) {
  const DeviceReplay& replay = device.replay;
  const bool asked_peak = device.asked.kind == AskedMoment::Kind::peak;
  Json json;
  json["device"] = device.name;
  json["events"] = device.events;
  json["exact_from_event"] = exact_from(replay);
  json["peak"] = peak_json(store, device);
  const auto peak = [&](std::uint64_t bytes) { return replay.has_history ? Json(bytes) : Json(); };
  json["peak_reserved_bytes"] =
      replay.has_history ? reserved_json(store, replay.peak_reserved_bytes) : Json();
  json["peak_active_bytes"] = peak(replay.peak_active_bytes);
  json["peak_requested_bytes"] = peak(replay.peak_requested_bytes);
  json["end"] = end_json(store, replay.end);
  json["counters"] = counters_json(replay);
  const std::string& kind = store.origin().kind;
  const bool is_computed = kind == kSimulatedRun || kind == kPredictedRun;
  const auto provenance = [&](bool is_measured) {
    return is_computed ? kind.c_str() : is_measured ? "measured" : "inferred";
  };
  json["provenance"] = {{"peak", provenance(replay.exact_from_event.has_value())},
                        {"end", provenance(replay.has_end)},
                        {"alloc_retries", provenance(replay.counters.are_retries_counted)}};
  json["run_kind"] = run_kind_name(device.sources.kind);
  json["sources"] = sources_json(device.sources);
  json["rounding"] = figure_json(device.sources.rounding);
  const auto& buffers = device.sources.buffer_bytes_at_peak;
  json["buffer_bytes_at_peak"] = buffers ? Json(*buffers) : Json();
  json["live_at_peak"] = asked_peak ? live_json(store, device.live, top) : Json();
  Json at = {{"moment", moment_json(device.asked)}};
  at.update(when_json(store, device.asked_when));
  at.update(totals_json(store, device.totals));
  at["active_bytes"] = device.totals.active_bytes;
  at["sources"] = source_bytes_json(device.asked_sources);
  at["tags"] = tags_json(store, device.tags);
  at["named"] = named_json(store, device.tags, top);
  at["free"] = free_json(store, device.memory);
  at["pins"] = pins_json(store, device.pins);
  if (!asked_peak) at["live"] = live_json(store, device.live, top);
  json["at"] = at;
  json["growth"] = growth_json(device.growth, store);
  json["leaks"] = device.leaks ? leaks_summary_json(*device.leaks, store) : nullptr;
  json["oom_reports"] = ooms_json(store, device);
  json["gap"] = card_usage_json(store, device.card_usage);
  json["source_series"] = series_json(device.sources);
  json["steps"] = steps_json(device.sources, kStepsListed);
  json["modules_by"] = device.sources.has_module_instances ? "instance" : "line";
  json["modules"] = modules_json(device.sources, store);
  return json;
}

Json input_json(const Overview& overview, const Store& store) {
  const Origin& origin = store.origin();
  Json input = {{"kind", origin.kind}, {"path", overview.path}, {"events", overview.events}};
  const bool has_history = std::ranges::any_of(
      overview.devices, [](const DeviceOverview& device) { return device.replay.has_history; });
  input["allocations"] = has_history ? Json(overview.allocations) : Json();
  input["frees"] = has_history ? Json(overview.frees) : Json();
  // Exact for the whole input only from where every device is.
  Json exact = 0;
  for (const DeviceOverview& device : overview.devices) {
    const auto& from = device.replay.exact_from_event;
    if (!from || exact.is_null()) {
      exact = nullptr;
    } else {
      exact = std::max<std::uint32_t>(exact.get<std::uint32_t>(), *from);
    }
  }
  input["exact_from_event"] = overview.devices.empty() ? Json() : exact;
  input["cut"] =
      origin.cut ? Json({{"byte_offset", origin.cut->byte_offset}, {"reason", origin.cut->reason}})
                 : Json();
  Json settings = Json::object();
  for (const auto& [key, value] : origin.settings) settings[key] = value;
  input["allocator_settings"] = settings;
  Json facts = Json::object();
  for (const auto& [key, value] : origin.facts) facts[key] = value;
  input["facts"] = facts;
  return input;
}

}  // namespace

std::string overview_json(const Overview& overview, const Store& store, std::size_t top) {
  Json json;
  json["schema_version"] = kOverviewSchemaVersion;
  json["input"] = input_json(overview, store);
  json["completeness"] = completeness_json(overview.completeness);
  json["devices"] = Json::array();
  for (const DeviceOverview& device : overview.devices)
    json["devices"].push_back(device_json(store, device, top));
  return dump(json);
}

std::string reports_json(const std::vector<std::string>& reports) {
  std::string json =
      "{\n\"schema_version\": " + std::to_string(kOverviewSchemaVersion) + ",\n\"reports\": [";
  for (std::size_t index = 0; index < reports.size(); ++index)
    json += (index == 0 ? "\n" : ",\n") + reports[index];
  return json + "\n]\n}";
}

}  // namespace gpumemprof
