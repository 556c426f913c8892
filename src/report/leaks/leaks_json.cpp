#include "report/leaks/leaks_json.h"

#include <cmath>
#include <nlohmann/json.hpp>

#include "analysis/code/shown_file.h"
#include "report/json/completeness_json.h"
#include "report/json/value_or_null.h"
#include "report/leaks/leak_holders.h"
#include "report/leaks/leaks_summary_json.h"

namespace gpumemprof {
namespace {

using Json = nlohmann::ordered_json;

constexpr int kSchemaVersion = 1;
constexpr int kIndent = 2;
constexpr std::size_t kSitesListed = 20;

Json frame_json(const Store& store, FrameId id) {
  if (id.is_none()) return {};
  const Frame& frame = store.frame(id);
  return {{"file", store.text(frame.file)}, {"line", frame.line}, {"name", store.text(frame.name)}};
}

Json text_or_null(std::string_view text) { return text.empty() ? Json() : Json(text); }

// A tenth of a unit is as much as such a figure says.
double rounded(double value) {
  constexpr double kParts = 10;
  return std::round(value * kParts) / kParts;
}

Json steps_json(const std::optional<StepsLeft>& left) {
  if (!left) return {};
  return {{"steps", std::llround(left->steps)},
          {"low", std::llround(left->low)},
          {"high", std::llround(left->high)},
          {"limit_bytes", left->limit_bytes},
          {"provenance", "predicted"}};
}

// Null: too little was recorded to know.
Json rate_or_null(const DeviceLeaks* device) {
  if (device == nullptr || device->verdict == LeakVerdict::too_short) return {};
  return std::llround(device->bytes_per_step);
}

Json leak_json(const LeakSite& leak, const DeviceLeaks& device, const Store& store) {
  Json json;
  FrameId frame;
  if (!leak.stack.is_none()) frame = store.stacks().frame(leak.stack);
  const bool has_frame = !frame.is_none();
  json["file"] = has_frame ? Json(store.text(store.frame(frame).file)) : Json();
  json["line"] = has_frame ? Json(store.frame(frame).line) : Json();
  json["function"] = has_frame ? Json(store.text(store.frame(frame).name)) : Json();
  json["is_backward"] = leak.is_backward;
  json["device"] = device.name;
  json["bytes_per_step"] = std::llround(leak.bytes_per_step);
  json["blocks_per_step"] = rounded(leak.blocks_per_step);
  json["bytes"] = leak.bytes;
  json["blocks"] = leak.blocks;
  json["first_step"] = leak.first_step;
  json["oldest_age_steps"] = leak.oldest_age_steps;
  json["source"] = memory_source_name(leak.source);
  json["source_provenance"] = provenance_name(leak.source_provenance);
  json["module"] = text_or_null(store.text(leak.module));
  json["tag"] = text_or_null(store.text(leak.tag));
  const LeakHolder holder = leak_holder(store, frame, leak.is_backward);
  json["holder"] = holder.chain;
  json["held_by"] = text_or_null(holder.text);
  json["advice"] = advice_with_holder(leak.advice, holder);
  json["doubt"] = text_or_null(leak.doubt);
  json["steps_to_oom"] =
      device.steps_to_oom ? Json(std::llround(device.steps_to_oom->steps)) : Json();
  json["stack"] = Json::array();
  for (StackId at = leak.stack; !at.is_none(); at = store.stacks().caller(at))
    json["stack"].push_back(frame_json(store, store.stacks().frame(at)));
  return json;
}

Json device_json(const DeviceLeaks& device, const Store& store) {
  Json json = leaks_summary_json(device, store);
  json.erase("sites");  // they are listed for all devices
  json["device"] = device.name;
  json["repetition"] = repetition_name(device.repetition);
  json["repeated_line"] = frame_json(store, device.repeated_line);
  json["last_step"] = device.last_step;
  json["reserved_bytes_per_step"] = std::llround(device.reserved_bytes_per_step);
  json["outside_bytes_per_step"] = std::llround(device.outside_bytes_per_step);
  json["stopped_bytes"] = device.stopped_bytes;
  json["suppressed"] = device.suppressed;
  json["steps_to_oom"] = steps_json(device.steps_to_oom);
  json["notes"] = device.notes;
  return json;
}

}  // namespace

Json leaks_summary_json(const DeviceLeaks& device, const Store& store) {
  Json json;
  json["verdict"] = leak_verdict_name(device.verdict);
  json["steps"] = device.steps;
  json["growth_bytes_per_step"] = rate_or_null(&device);
  json["frame"] = frame_json(store, device.line);
  json["lines"] = device.leaks.size();
  json["sites"] = Json::array();
  for (const LeakSite& leak : device.leaks) {
    if (json["sites"].size() == kSitesListed) break;
    Json site = leak_json(leak, device, store);
    site.erase("stack");
    json["sites"].push_back(std::move(site));
  }
  return json;
}

std::string leaks_json(const LeaksReport& report, const Store& store) {
  const DeviceLeaks* worst = report.worst();
  Json json;
  json["schema_version"] = kSchemaVersion;
  json["path"] = report.path;
  json["completeness"] = completeness_json(report.completeness);
  json["verdict"] = leak_verdict_name(worst == nullptr ? LeakVerdict::too_short : worst->verdict);
  json["growth_bytes_per_step"] = rate_or_null(worst);
  json["steps_to_oom"] = worst == nullptr ? Json() : steps_json(worst->steps_to_oom);
  json["leaks"] = Json::array();
  json["devices"] = Json::array();
  for (const DeviceLeaks& device : report.devices) {
    for (const LeakSite& leak : device.leaks)
      json["leaks"].push_back(leak_json(leak, device, store));
    json["devices"].push_back(device_json(device, store));
  }
  return json.dump(kIndent, ' ', false, Json::error_handler_t::replace);
}

}  // namespace gpumemprof
