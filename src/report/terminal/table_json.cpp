#include <nlohmann/json.hpp>

#include "report/json/event_json.h"
#include "report/terminal/line_stats_json.h"
#include "report/terminal/table_text.h"

namespace gpumemprof {
namespace {

using Json = nlohmann::ordered_json;

constexpr int kTableSchemaVersion = 1;

Json stack_frames_json(const Store& store, StackId stack) {
  Json frames = Json::array();
  if (stack.is_none()) return frames;
  for (const FrameId frame : store.stacks().frames_of(stack))
    frames.push_back(terminal::frame_json(store, frame));
  return frames;
}

Json text_json(const Store& store, StringId text) {
  return text.is_none() ? Json() : Json(store.text(text));
}

Json row_json(const AllocationRow& row, const Store& store) {
  Json json = {{"device", store.device_name(row.device)},
               {"alloc_event", event_or_null(row.birth)},
               {"free_requested_event", event_or_null(row.free)},
               {"size_bytes", row.size_bytes},
               {"requested_bytes", row.requested_bytes},
               {"step", row.step == 0 ? Json() : Json(row.step)},
               {"time_us", terminal::time_us_json(row.time_ns)},
               {"lifetime_us", terminal::time_us_json(row.lifetime_ns)},
               {"source", row.source ? Json(memory_source_name(*row.source)) : Json()},
               {"source_provenance", nullptr},
               {"name", text_json(store, row.name)},
               {"tag", text_json(store, row.tag)},
               {"is_backward", row.is_backward},
               {"stack", stack_frames_json(store, row.stack)}};
  if (row.source) json["source_provenance"] = row.is_source_measured ? "measured" : "inferred";
  return json;
}

}  // namespace

std::string table_json(const ShownTable& table) {
  Json json = {{"schema_version", kTableSchemaVersion},
               {"input", terminal::input_json(table.overview, table.store)},
               {"is_read_in_windows", table.is_in_windows},
               {"by", table.is_by_line ? "line" : "allocation"},
               {"sorted_by", table.order},
               {"filter", table.filter.empty() ? Json() : Json(table.filter)},
               {"moments", Json::array()},
               {"is_live_only", table.is_at_moment},
               {"matches", table.matches},
               {"allocations", table.matching.count},
               {"bytes", table.matching.bytes},
               {"rows", Json::array()}};
  for (const DeviceOverview& device : table.overview.devices) {
    Json moment = {{"device", device.name}};
    moment.update(terminal::moment_json(device));
    json["moments"].push_back(moment);
  }
  for (const ShownLine& line : table.lines) {
    Json entry = {{"device", table.store.device_name(line.device)}};
    entry.update(terminal::line_json(line.stats, table.store));
    entry["at_moment"] = terminal::counted_json(line.stats.at_moment);
    json["rows"].push_back(entry);
  }
  for (const AllocationRow& row : table.rows) json["rows"].push_back(row_json(row, table.store));
  return terminal::document(json);
}

}  // namespace gpumemprof
