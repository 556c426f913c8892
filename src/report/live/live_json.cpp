#include "report/live/live_json.h"

#include <nlohmann/json.hpp>

#include "report/json/value_or_null.h"

namespace gpumemprof {
namespace {

using Json = nlohmann::ordered_json;

Json live_site(const LiveSite& site) {
  return {{"file", text_or_null(site.file)},
          {"line", site.file.empty() ? Json() : Json(site.line)},
          {"function", text_or_null(site.function)},
          {"is_backward", site.is_backward},
          {"bytes", site.bytes},
          {"blocks", site.blocks},
          {"growth_bytes_per_step", value_or_null(site.growth_bytes_per_step)}};
}

Json live_step(const LiveStep& step) {
  return {{"step", step.number},
          {"peak_bytes", step.peak_bytes},
          {"floor_bytes", step.floor_bytes},
          {"end_bytes", step.end_bytes}};
}

Json live_sources(const LiveDevice& device) {
  Json sources = Json::object();
  for (const MemorySource source : kMemorySources) {
    const std::uint64_t bytes = device.bytes_by_source[static_cast<std::size_t>(source)];
    if (memory_source_info(source).is_listed(bytes))
      sources[std::string(memory_source_name(source))] = bytes;
  }
  return sources;
}

std::string_view severity_name(LiveNotice::Severity severity) {
  switch (severity) {
    case LiveNotice::Severity::note:
      return "note";
    case LiveNotice::Severity::warning:
      return "warning";
    case LiveNotice::Severity::failure:
      break;
  }
  return "failure";
}

Json live_notice(const LiveNotice& notice) {
  return {{"severity", severity_name(notice.severity)},
          {"kind", notice.kind},
          {"device", text_or_null(notice.device)},
          {"text", notice.text}};
}

Json live_device(const LiveDevice& device) {
  Json json = {
      {"device", device.name},
      {"card", text_or_null(device.card)},
      {"has_pool", device.has_pool},
      {"events", device.events},
      {"lost_events", device.lost_events},
      {"is_exact", device.is_exact},
      {"last_time_ns", device.last_time_ns == kUnknownTime ? Json() : Json(device.last_time_ns)},
      {"allocated_bytes", device.allocated_bytes},
      {"active_bytes", device.active_bytes},
      {"reserved_bytes", device.reserved_bytes},
      {"peak_allocated_bytes", device.peak_allocated_bytes},
      {"peak_reserved_bytes", device.peak_reserved_bytes},
      {"recent_peak_allocated_bytes", device.recent_peak_allocated_bytes},
      {"recent_peak_reserved_bytes", device.recent_peak_reserved_bytes},
      {"out_of_memory", device.ooms},
      {"retries", value_or_null(device.retries)},
      {"unclear_retries", device.unclear_retries},
      {"segments_returned", device.segment_frees},
      {"total_bytes", value_or_null(device.total_bytes)},
      {"used_bytes", value_or_null(device.used_bytes)},
      {"process_bytes", value_or_null(device.process_bytes)},
      {"other_processes_bytes", value_or_null(device.other_processes_bytes)},
      {"outside_pool_bytes", value_or_null(device.outside_pool_bytes)},
      {"used_now_bytes", value_or_null(device.used_now_bytes)},
      {"recent_peak_used_bytes", value_or_null(device.recent_peak_used_bytes)},
      {"limit_bytes", value_or_null(device.limit_bytes)},
      {"sources", live_sources(device)},
      {"labelled_bytes", device.labelled_bytes}};
  json["steps"] = Json::array();
  for (const LiveStep& step : device.steps) json["steps"].push_back(live_step(step));
  json["sites"] = Json::array();
  for (const LiveSite& site : device.sites) json["sites"].push_back(live_site(site));
  return json;
}

}  // namespace

std::string live_json(const LiveReport& report) {
  Json json = {{"path", report.path},
               {"file_bytes", report.file_bytes},
               {"is_behind", report.is_behind},
               {"ended", report.ending ? Json(report.ending->reason) : Json()},
               {"problem", report.ending ? text_or_null(report.ending->problem) : Json()},
               {"command", text_or_null(report.command)},
               {"host", text_or_null(report.host)},
               {"job", text_or_null(report.job)},
               {"gpumemprof", text_or_null(report.gpumemprof)},
               {"torch", text_or_null(report.torch)},
               {"pid", value_or_null(report.pid)},
               {"rank", value_or_null(report.rank)},
               {"world_size", value_or_null(report.world_size)},
               {"devices", Json::array()}};
  for (const LiveDevice& device : report.devices) json["devices"].push_back(live_device(device));
  json["notices"] = Json::array();
  for (const LiveNotice& notice : report.notices) json["notices"].push_back(live_notice(notice));
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

}  // namespace gpumemprof
