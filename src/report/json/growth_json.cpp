#include "report/json/growth_json.h"

#include <cmath>

namespace gpumemprof {
namespace {

using Json = nlohmann::ordered_json;

Json frame_or_null(const Store& store, FrameId id) {
  if (id.is_none()) return {};
  const Frame& frame = store.frame(id);
  return {{"file", store.text(frame.file)}, {"line", frame.line}, {"name", store.text(frame.name)}};
}

}  // namespace

Json growth_json(const Growth& growth, const Store& store) {
  if (!growth.is_known) return {};
  Json json;
  json["is_growing"] = growth.is_growing;
  json["steps"] = growth.steps;
  json["since_step"] = growth.is_growing ? Json(growth.since_step) : Json();
  json["last_step"] = growth.last_step;
  json["bytes_per_step"] = std::llround(growth.bytes_per_step);
  json["grown_bytes"] = growth.grown_bytes;
  json["frame"] = frame_or_null(store, growth.line);
  json["lines"] = Json::array();
  for (const GrowingLine& line : growth.lines) {
    json["lines"].push_back({{"frame", frame_or_null(store, line.frame)},
                             {"is_backward", line.is_backward},
                             {"since_step", line.since_step},
                             {"bytes_per_step", std::llround(line.bytes_per_step)},
                             {"grown_bytes", line.grown_bytes}});
  }
  return json;
}

}  // namespace gpumemprof
