#include "report/json/info_json.h"

#include <nlohmann/json.hpp>

#include "report/json/completeness_json.h"
#include "report/json/value_or_null.h"

namespace gpumemprof {
namespace {

using Json = nlohmann::ordered_json;

constexpr int kSchemaVersion = 1;
constexpr int kIndent = 2;

Json device_json(const DeviceInfo& device) {
  return {{"device", device.device},
          {"kind", device.kind},
          {"name", value_or_null(device.name)},
          {"total_bytes", value_or_null(device.total_bytes)},
          {"events", device.events}};
}

Json time_or_null(std::int64_t time_ns) { return time_ns == kUnknownTime ? Json() : Json(time_ns); }

Json chapter_json(const ChapterFigures& chapter) {
  const auto known = [&](std::uint64_t number) {
    return chapter.has_figures ? Json(number) : Json();
  };
  Json json = {{"number", chapter.number},
               {"is_kept", chapter.is_kept},
               {"size_bytes", chapter.is_kept ? Json(chapter.size_bytes) : Json()},
               {"first_time_ns", time_or_null(chapter.first_time_ns)},
               {"last_time_ns", time_or_null(chapter.last_time_ns)},
               {"events", known(chapter.events)},
               {"failures", known(chapter.failures)},
               {"first_step", chapter.first_step > 0 ? Json(chapter.first_step) : Json()},
               {"last_step", chapter.last_step > 0 ? Json(chapter.last_step) : Json()},
               {"devices", Json::array()}};
  for (const ChapterFigures::Device& device : chapter.devices) {
    json["devices"].push_back({{"device", device.device},
                               {"peak_allocated_bytes", device.peak_allocated_bytes},
                               {"peak_reserved_bytes", device.peak_reserved_bytes},
                               {"floor_bytes", device.floor_bytes},
                               {"end_bytes", device.end_bytes}});
  }
  return json;
}

}  // namespace

std::string info_json(const RecordingInfo& info) {
  Json json;
  json["schema_version"] = kSchemaVersion;
  json["path"] = info.file.path;
  json["kind"] = info.kind;
  json["format_version"] = value_or_null(info.file.format_version);
  json["size_bytes"] = value_or_null(info.file.size_bytes);
  json["cut"] = info.cut
                    ? Json{{"byte_offset", info.cut->byte_offset}, {"reason", info.cut->reason}}
                    : Json();
  json["completeness"] = completeness_json(info.completeness);
  json["chapters"] = info.completeness.chapters.empty() ? Json() : Json::array();
  for (const ChapterFigures& chapter : info.completeness.chapters)
    json["chapters"].push_back(chapter_json(chapter));
  json["devices"] = Json::array();
  for (const DeviceInfo& device : info.devices) json["devices"].push_back(device_json(device));
  json["versions"] = {{"gpumemprof", value_or_null(info.gpumemprof_version)},
                      {"torch", value_or_null(info.torch_version)},
                      {"python", value_or_null(info.python_version)}};
  json["process"] = {{"host", value_or_null(info.host)},
                     {"pid", value_or_null(info.process_id)},
                     {"rank", value_or_null(info.rank)},
                     {"command", value_or_null(info.command)}};
  json["capture"] = value_or_null(info.capture_mode);
  json["available"] = {{"history", info.has_history},
                       {"stacks", info.has_stacks},
                       {"forward_stacks", info.has_forward_stacks},
                       {"modules", info.has_modules},
                       {"labels", info.has_labels},
                       {"card_samples", info.has_card_samples}};
  return json.dump(kIndent, ' ', false, Json::error_handler_t::replace);
}

}  // namespace gpumemprof
