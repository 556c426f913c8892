#include "report/terminal/reported_input.h"

#include <algorithm>

#include "report/json/completeness_json.h"
#include "report/json/event_json.h"

namespace gpumemprof::terminal {

using Json = nlohmann::ordered_json;

Json input_json(const Overview& overview, const Store& store) {
  const bool has_history = std::ranges::any_of(
      overview.devices, [](const DeviceOverview& device) { return device.replay.has_history; });
  Json json = {{"path", overview.path},
               {"kind", store.origin().kind},
               {"events", overview.events},
               {"allocations", nullptr},
               {"frees", nullptr}};
  if (has_history) {
    json["allocations"] = overview.allocations;
    json["frees"] = overview.frees;
  }
  json["completeness"] = completeness_json(overview.completeness);
  return json;
}

Json moment_json(const DeviceOverview& device) {
  Json moment = device.asked.event;
  if (device.asked.kind == AskedMoment::Kind::peak) moment = "peak";
  if (device.asked.kind == AskedMoment::Kind::end) moment = "end";
  return {{"moment", moment},
          {"event_index", event_or_null(device.asked_when.event)},
          {"allocated_bytes", device.totals.allocated_bytes}};
}

Json frame_json(const Store& store, FrameId id) {
  if (id.is_none()) return {};
  const Frame& frame = store.frame(id);
  return {{"name", store.text(frame.name)}, {"file", store.text(frame.file)}, {"line", frame.line}};
}

Json time_us_json(std::int64_t time_ns) {
  return time_ns == kUnknownTime ? Json() : Json(time_ns / 1000);
}

std::string document(const Json& json) {
  constexpr int kIndent = 2;
  return json.dump(kIndent, ' ', false, Json::error_handler_t::replace);
}

}  // namespace gpumemprof::terminal
