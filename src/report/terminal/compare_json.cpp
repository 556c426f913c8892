#include <algorithm>
#include <nlohmann/json.hpp>

#include "report/terminal/compare_text.h"
#include "report/terminal/reported_input.h"

namespace gpumemprof {
namespace {

using Json = nlohmann::ordered_json;

constexpr int kCompareSchemaVersion = 1;

Json signed_difference(std::uint64_t first, std::uint64_t second) {
  return static_cast<std::int64_t>(second) - static_cast<std::int64_t>(first);
}

Json side_json(const std::optional<DeviceComparison::Side>& side) {
  if (!side) return {};
  return {{"device", side->device},
          {"moment", side->moment.kind == AskedMoment::Kind::peak ? "peak" : "end"},
          {"allocated_bytes", side->allocated_bytes},
          {"peak_reserved_bytes",
           side->peak_reserved_bytes ? Json(*side->peak_reserved_bytes) : Json()},
          {"provenance", side->is_exact ? "measured" : "inferred"}};
}

class CompareJson {
 public:
  CompareJson(const ShownComparison& shown, std::size_t top) : shown_(shown), top_(top) {}

  [[nodiscard]] Json device(const DeviceComparison& device) const {
    const bool has_both = device.first && device.second;
    Json json = {
        {"device", device.name},
        {"first", side_json(device.first)},
        {"second", side_json(device.second)},
        {"difference_bytes",
         has_both ? signed_difference(device.first_bytes(), device.second_bytes()) : Json()},
        {"by_source", list(device.by_source, false)},
        {"by_line", list(device.by_line, true)},
        {"by_module", nullptr}};
    if (device.by_module) json["by_module"] = list(*device.by_module, false);
    return json;
  }

 private:
  [[nodiscard]] Json list(const std::vector<ComparedGroup>& groups, bool has_blocks) const {
    Json all = Json::array();
    for (std::size_t index = 0; index < std::min(top_, groups.size()); ++index) {
      const ComparedGroup& group = groups[index];
      const Store& store = *(group.is_of_first ? shown_.first : shown_.second).store;
      Json entry = {{"name", group.name.empty() ? Json() : Json(group.name)},
                    {"frame", terminal::frame_json(store, group.frame)},
                    {"is_backward", group.is_backward},
                    {"first_bytes", group.first_bytes},
                    {"second_bytes", group.second_bytes},
                    {"difference_bytes", signed_difference(group.first_bytes, group.second_bytes)}};
      if (has_blocks) {
        entry["first_blocks"] = group.first_blocks;
        entry["second_blocks"] = group.second_blocks;
      }
      all.push_back(entry);
    }
    return all;
  }

  const ShownComparison& shown_;
  std::size_t top_;
};

}  // namespace

std::string compare_json(const ShownComparison& shown, std::size_t top) {
  Json json = {{"schema_version", kCompareSchemaVersion},
               {"first", terminal::input_json(*shown.first.overview, *shown.first.store)},
               {"second", terminal::input_json(*shown.second.overview, *shown.second.store)},
               {"devices", Json::array()},
               {"limit", nullptr}};
  const CompareJson writer(shown, top);
  for (const DeviceComparison& device : shown.devices)
    json["devices"].push_back(writer.device(device));
  if (!shown.limit.empty())
    json["limit"] = {{"fail_above", shown.limit},
                     {"is_exceeded", shown.is_exceeded},
                     {"is_certain", shown.is_exceeded || are_peaks_known(shown.second)}};
  return terminal::document(json);
}

}  // namespace gpumemprof
