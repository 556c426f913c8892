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
