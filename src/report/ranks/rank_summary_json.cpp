#include "report/ranks/rank_summary_json.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <nlohmann/json.hpp>

#include "analysis/code/user_frame.h"
#include "report/json/value_or_null.h"
#include "report/text/place.h"

namespace gpumemprof {
namespace {

using Json = nlohmann::ordered_json;

constexpr int kVersion = 1;
// What is not among the largest at the peak of its rank does not explain that peak.
constexpr std::size_t kMostSites = 24;
constexpr std::size_t kMostModules = 24;
constexpr std::size_t kMostOoms = 3;

std::string dump_line(const Json& json) {
  return json.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n";
}

Json unix_ns_or_null(std::int64_t time_ns) {
  return time_ns == kUnknownTime ? Json() : Json(time_ns);
}

Json place_json(const Store& store, FrameId frame, bool is_backward) {
  if (frame.is_none()) return {};
  return text::place(store, frame) + (is_backward ? " (backward)" : "");
}

Json place_of_stack(const Store& store, StackId stack) {
  const StackId user = stack.is_none() ? stack : user_part(store, stack);
  if (user.is_none()) return {};
  return place_json(store, store.stacks().frame(user), false);
}

Json summary_process_json(const ProcessFacts& facts) {
  Json mesh = Json::array();
  for (const auto& [name, place] : facts.mesh_coordinates) {
    const auto size = facts.mesh_sizes.find(name);
    mesh.push_back({{"dimension", name},
                    {"coordinate", place},
                    {"size", size == facts.mesh_sizes.end() ? Json() : Json(size->second)}});
  }
  return {{"rank", value_or_null(facts.rank)},
          {"local_rank", value_or_null(facts.local_rank)},
          {"world_size", value_or_null(facts.world_size)},
          {"mesh", mesh},
          {"job", text_or_null(facts.job)},
          {"restart_count", value_or_null(facts.restart_count)},
          {"host", text_or_null(facts.host)},
          {"pid", value_or_null(facts.pid)},
          {"command", text_or_null(facts.command)},
          {"torch", text_or_null(facts.torch)},
          {"gpumemprof", text_or_null(facts.gpumemprof)}};
}

Json summary_ending_json(const Store& store) {
  const std::optional<Ending>& ending = store.origin().ending;
  const ProcessFacts& facts = store.facts().process();
  return {{"is_closed", ending ? Json(ending->is_closed) : Json()},
          {"reason", ending ? text_or_null(ending->reason) : Json()},
          {"problem", ending ? text_or_null(ending->problem) : Json()},
          {"failure_type", text_or_null(facts.failure_type)},
          {"failure_place", text_or_null(facts.failure_place)},
          {"failure_unix_ns", value_or_null(facts.failure_unix_ns)},
          {"is_failure_of_peer", facts.is_failure_of_peer}};
}

Json summary_sites_json(const Store& store, const DeviceOverview& device) {
  Json sites = Json::array();
  for (const LiveLine& line : device.live_lines) {
    if (sites.size() == kMostSites) break;
    sites.push_back({{"line", place_json(store, line.line.frame, line.line.is_backward)},
                     {"bytes", line.line.bytes}});
  }
  return sites;
}

Json summary_modules_json(const Store& store, const DeviceSources& sources) {
  std::vector<const ModuleNode*> nodes;
  for (const ModuleNode& node : sources.modules) {
    if (node.self_bytes > 0) nodes.push_back(&node);
  }
  std::ranges::stable_sort(nodes, std::greater{}, &ModuleNode::self_bytes);
  if (nodes.size() > kMostModules) nodes.resize(kMostModules);
  Json modules = Json::array();
  for (const ModuleNode* node : nodes) {
    const Json name = node->name.empty() ? place_json(store, node->frame, false) : Json(node->name);
    modules.push_back({{"module", name}, {"bytes", node->self_bytes}});
  }
  return modules;
}

Json leaks_json_of(const Store& store, const DeviceOverview& device) {
  if (!device.leaks) return {};
  const DeviceLeaks& leaks = *device.leaks;
  Json lines = Json::array();
  for (const LeakSite& site : leaks.leaks) {
    if (lines.size() == kMostOoms) break;
    lines.push_back({{"line", place_of_stack(store, site.stack)},
                     {"bytes_per_step", std::llround(site.bytes_per_step)},
                     {"first_step", site.first_step}});
  }
  return {{"verdict", leak_verdict_name(leaks.verdict)},
          {"steps", leaks.steps},
          {"bytes_per_step", std::llround(leaks.bytes_per_step)},
          {"lines", lines}};
}

Json ooms_json_of(const Store& store, const DeviceOverview& device) {
  Json ooms = Json::array();
  for (std::size_t row = 0; row < std::min(device.ooms.size(), kMostOoms); ++row) {
    const OomReport& oom = device.ooms[row];
    const When& when = device.oom_whens[row];
    ooms.push_back({{"unix_ns", unix_ns_or_null(when.time_ns)},
                    {"step", value_or_null(when.step)},
                    {"wanted_bytes", oom.wanted_bytes},
                    {"cause", oom_cause_name(oom.cause)},
                    {"is_proven", oom.is_proven()},
                    {"line", place_of_stack(store, oom.stack)}});
  }
  return ooms;
}

// Only a source that held anything at some time.
Json sources_json_of(const DeviceSources& sources) {
  Json json = Json::object();
  for (const MemorySourceInfo& info : kMemorySourceTable) {
    const SourceFigure& figure = sources.figure(info.source);
    if (figure.bytes_max == 0) continue;
    json[std::string(info.name)] = {{"at_peak", figure.bytes_at_peak},
                                    {"most", figure.bytes_max},
                                    {"provenance", provenance_name(figure.provenance)}};
  }
  return json;
}

Json outside_kinds_json(const std::optional<CardUsage>& usage) {
  if (!usage || !usage->outside_bytes) return {};
  Json json = Json::object();
  for (std::size_t kind = 0; kind < usage->outside_by_kind.size(); ++kind) {
    if (usage->outside_by_kind[kind] > 0)
      json[std::string(outside_kind_name(static_cast<OutsideKind>(kind)))] =
          usage->outside_by_kind[kind];
  }
  return json;
}

Json nccl_json(const DeviceFacts& facts) {
  if (!facts.nccl_bytes) return {};
  return {{"bytes", *facts.nccl_bytes},
          {"provenance", facts.is_nccl_measured ? "measured" : "inferred"},
          {"communicators", value_or_null(facts.communicators)}};
}

Json summary_card_json(const Store& store, const DeviceOverview& device,
                       const PoolOverSteps* pool) {
  const DeviceFacts& facts = store.facts().device(device.device);
  const std::optional<CardUsage>& usage = device.card_usage;
  const auto of_card = [&](std::optional<std::uint64_t> CardUsage::* field) {
    return usage ? value_or_null((*usage).*field) : Json();
  };
  const std::optional<double>& fraction =
      facts.memory_fraction_at_end ? facts.memory_fraction_at_end : facts.memory_fraction;
  Json json;
  json["card"] = text_or_null(facts.name);
  json["total_bytes"] =
      facts.total_bytes ? Json(*facts.total_bytes) : of_card(&CardUsage::total_bytes);
  json["memory_fraction"] = value_or_null(fraction);
  json["firmware_bytes"] = of_card(&CardUsage::firmware_bytes);
  json["other_processes_bytes"] = of_card(&CardUsage::other_processes_bytes);
  json["outside_bytes"] = pool != nullptr && pool->most_outside_bytes
                              ? Json(*pool->most_outside_bytes)
                              : of_card(&CardUsage::outside_bytes);
  json["outside_by_kind"] = outside_kinds_json(usage);
  json["nccl"] = nccl_json(facts);
  json["least_free_bytes"] = pool != nullptr ? value_or_null(pool->least_free_bytes) : Json();
  return json;
}

Json summary_device_json(const Store& store, const DeviceOverview& device,
                         const PoolOverSteps* pool) {
  const DeviceReplay& replay = device.replay;
  const auto of_history = [&](const Json& value) { return replay.has_history ? value : Json(); };
  Json json = {{"device", device.name}};
  json.update(summary_card_json(store, device, pool));
  json["is_exact"] = replay.exact_from_event.has_value();
  json["run_kind"] = run_kind_name(device.sources.kind);
  json["events"] = device.events;
  json["peak_bytes"] = of_history(replay.peak.allocated_bytes);
  json["peak_step"] = value_or_null(device.peak_when.step);
  json["peak_phase"] = device.peak_when.phase ? Json(phase_name(*device.peak_when.phase)) : Json();
  json["peak_unix_ns"] = unix_ns_or_null(device.peak_when.time_ns);
  json["reserved_bytes"] =
      store.facts().has_pool() ? of_history(replay.peak_reserved_bytes) : Json();
  json["retries"] = of_history(value_or_null(replay.counters.alloc_retries));
  json["are_retries_counted"] = replay.counters.are_retries_counted;
  json["ooms"] = of_history(replay.counters.ooms);
  json["sources"] = sources_json_of(device.sources);
  json["rounding_bytes"] = device.sources.rounding.bytes_at_peak;
  json["leaks"] = leaks_json_of(store, device);
  json["oom_reports"] = ooms_json_of(store, device);
  json["steps"] = device.sources.steps.size();
  std::uint64_t left_out = 0;
  for (const StepFigures& step : device.sources.steps) left_out += step.left_out.count;
  json["steps_left_out"] = left_out;
  return json;
}

// On a line of its own: only few ranks are looked at so closely.
Json held_json(std::size_t index, const Store& store, const DeviceOverview& device) {
  Json json = {{"device", index}};
  json["sites"] = summary_sites_json(store, device);
  json["sites_left_out"] = device.live_lines.size() - json["sites"].size();
  json["modules"] = summary_modules_json(store, device.sources);
  return json;
}

// The first value, then what each differs by from the one before: mostly 0, which takes two bytes.
void add_column(std::size_t device, std::string_view name, std::size_t rows,
                const std::function<std::uint64_t(std::size_t)>& value, std::string& out) {
  out += "{\"device\":" + std::to_string(device) + ",\"column\":\"" + std::string(name) +
         "\",\"differences\":[";
  std::uint64_t before = 0;
  for (std::size_t row = 0; row < rows; ++row) {
    const std::uint64_t now = value(row);
    if (row > 0) out += ',';
    out += std::to_string(static_cast<std::int64_t>(now - before));
    before = now;
  }
  out += "]}\n";
}

void add_columns(std::size_t index, const Store& store, const DeviceOverview& device,
                 const PoolOverSteps* pool, std::string& out) {
  const std::vector<StepFigures>& steps = device.sources.steps;
  const auto add = [&](std::string_view name, const auto& value) {
    add_column(index, name, steps.size(), value, out);
  };
  add("step", [&](std::size_t row) { return std::uint64_t{steps[row].step}; });
  add("peak_bytes", [&](std::size_t row) { return steps[row].peak_bytes; });
  add("floor_bytes", [&](std::size_t row) { return steps[row].floor_bytes; });
  if (pool != nullptr && store.facts().has_pool())
    add("reserved_bytes", [&](std::size_t row) { return pool->steps[row].reserved_bytes; });
  const bool has_outside = pool != nullptr && !pool->steps.empty() &&
                           std::ranges::all_of(pool->steps, [](const StepPool& step) {
                             return step.outside_bytes.has_value();
                           });
  if (has_outside)
    add("outside_bytes", [&](std::size_t row) { return *pool->steps[row].outside_bytes; });
  for (const MemorySourceInfo& info : kMemorySourceTable) {
    const auto source = static_cast<std::size_t>(info.source);
    if (std::ranges::all_of(
            steps, [&](const StepFigures& step) { return step.most_by_source[source] == 0; }))
      continue;
    add("most " + std::string(info.name),
        [&](std::size_t row) { return steps[row].most_by_source[source]; });
  }
}

// From the first event to the last, of all devices.
Json times_json(const Overview& overview) {
  std::int64_t first = kUnknownTime;
  std::int64_t last = kUnknownTime;
  for (const DeviceOverview& device : overview.devices) {
    const When& when = device.peak_when;
    if (when.time_ns == kUnknownTime || when.since_start_ns == kUnknownTime) continue;
    const std::int64_t begin = when.time_ns - when.since_start_ns;
    const std::int64_t end = begin + std::max<std::int64_t>(device.duration_ns, 0);
    first = first == kUnknownTime ? begin : std::min(first, begin);
    last = last == kUnknownTime ? end : std::max(last, end);
  }
  return {{"first_unix_ns", unix_ns_or_null(first)}, {"last_unix_ns", unix_ns_or_null(last)}};
}

}  // namespace

std::string rank_summary_json(const RankSummary& summary, const Store& store) {
  const Overview& overview = summary.overview;
  Json head = {{"format", "gpumemprof rank summary"}, {"version", kVersion}};
  head["recording_bytes"] = summary.recording_bytes;
  head["kind"] = store.origin().kind;
  head["is_whole"] = overview.completeness.is_whole();
  head["process"] = summary_process_json(store.facts().process());
  head["ending"] = summary_ending_json(store);
  head.update(times_json(overview));
  head["devices"] = Json::array();
  std::string rest;
  for (std::size_t index = 0; index < overview.devices.size(); ++index) {
    const PoolOverSteps* pool = index < summary.pools.size() ? &summary.pools[index] : nullptr;
    head["devices"].push_back(summary_device_json(store, overview.devices[index], pool));
    rest += dump_line(held_json(index, store, overview.devices[index]));
    add_columns(index, store, overview.devices[index], pool, rest);
  }
  return dump_line(head) + rest;
}

}  // namespace gpumemprof
