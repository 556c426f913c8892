#include "report/json/sources_json.h"

#include "report/json/event_json.h"

namespace gpumemprof {
namespace {

using Json = nlohmann::ordered_json;

Json phase_json(const PhaseFigures& phase) {
  return {{"phase", phase_name(phase.phase)},
          {"first_event", phase.first_event},
          {"last_event", phase.last_event},
          {"peak_bytes", phase.peak_bytes},
          {"peak_event", event_or_null(phase.peak_event)},
          {"live_bytes", phase.live_bytes},
          {"saved_for_backward_bytes",
           phase.saved_for_backward_bytes ? Json(*phase.saved_for_backward_bytes) : Json()},
          {"sources_at_peak", source_bytes_json(phase.at_peak)}};
}

Json step_json(const DeviceSources& sources, const StepFigures& step) {
  Json phases = Json::array();
  for (std::uint32_t row = 0; row < step.phase_count; ++row)
    phases.push_back(phase_json(sources.phases[step.first_phase + row]));
  return {{"step", step.step},
          {"first_event", step.first_event},
          {"last_event", step.last_event},
          {"peak_bytes", step.peak_bytes},
          {"peak_event", event_or_null(step.peak_event)},
          {"floor_bytes", step.floor_bytes},
          {"live_bytes", step.live_bytes},
          {"saved_for_backward_bytes", step.saved_for_backward_bytes},
          {"sources_at_peak", source_bytes_json(step.at_peak)},
          {"phases", phases}};
}

}  // namespace

Json figure_json(const SourceFigure& figure) {
  return {{"bytes_at_peak", figure.bytes_at_peak},
          {"bytes_max", figure.bytes_max},
          {"provenance", provenance_name(figure.provenance)},
          {"max_provenance", provenance_name(figure.max_provenance)}};
}

Json sources_json(const DeviceSources& sources) {
  Json json;
  for (const MemorySourceInfo& info : kMemorySourceTable) {
    const SourceFigure& figure = sources.figure(info.source);
    if (info.is_listed(figure.bytes_max)) json[std::string(info.name)] = figure_json(figure);
  }
  return json;
}

Json source_bytes_json(const SourceBytes& bytes) {
  Json json;
  for (const MemorySourceInfo& info : kMemorySourceTable) {
    if (info.is_listed(bytes[info.source])) json[std::string(info.name)] = bytes[info.source];
  }
  json["rounding"] = bytes.rounding;
  return json;
}

Json series_json(const DeviceSources& sources) {
  const SourceSeries& series = sources.series;
  Json json;
  json["event_index"] = series.event;
  for (const MemorySourceInfo& info : kMemorySourceTable) {
    if (!info.is_listed(sources.figure(info.source).bytes_max)) continue;
    Json values = Json::array();
    for (const SourceBytes& bytes : series.bytes) values.push_back(bytes[info.source]);
    json[std::string(info.name)] = std::move(values);
  }
  Json rounding = Json::array();
  for (const SourceBytes& bytes : series.bytes) rounding.push_back(bytes.rounding);
  json["rounding"] = std::move(rounding);
  return json;
}

Json steps_json(const DeviceSources& sources, std::size_t limit) {
  Json steps = Json::array();
  const std::size_t count = sources.steps.size();
  for (std::size_t index = 0; index < count; ++index) {
    if (count > limit && index == limit / 2) index = count - (limit - limit / 2);
    steps.push_back(step_json(sources, sources.steps[index]));
  }
  return steps;
}

Json modules_json(const DeviceSources& sources, const Store& store) {
  Json modules = Json::array();
  for (const ModuleNode& node : sources.modules) {
    Json entry;
    entry["parent"] = node.parent == ModuleNode::kNoParent ? Json() : Json(node.parent);
    entry["name"] = node.name.empty() ? Json() : Json(node.name);
    entry["frame"] = Json();
    if (!node.frame.is_none()) {
      const Frame& frame = store.frame(node.frame);
      entry["frame"] = {
          {"name", store.text(frame.name)}, {"file", store.text(frame.file)}, {"line", frame.line}};
    }
    entry["bytes"] = node.bytes;
    entry["self_bytes"] = node.self_bytes;
    entry["blocks"] = node.blocks;
    entry["sources"] = source_bytes_json(node.by_source);
    modules.push_back(std::move(entry));
  }
  return modules;
}

}  // namespace gpumemprof
