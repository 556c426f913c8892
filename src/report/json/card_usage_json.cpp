#include "report/json/card_usage_json.h"

#include <nlohmann/json.hpp>

namespace gpumemprof {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::int64_t kNanosecondsPerMicrosecond = 1000;

Json known_bytes_json(const std::optional<std::uint64_t>& bytes) {
  return bytes ? Json(*bytes) : Json();
}

Json card_json(const CardUsage& gap) {
  return {{"total_bytes", known_bytes_json(gap.total_bytes)},
          {"firmware_bytes", known_bytes_json(gap.firmware_bytes)},
          {"used_bytes", known_bytes_json(gap.used_bytes)},
          {"process_bytes", known_bytes_json(gap.process_bytes)},
          {"other_processes_bytes", known_bytes_json(gap.other_processes_bytes)},
          {"driver_bytes", known_bytes_json(gap.driver_bytes)},
          {"free_bytes", known_bytes_json(gap.free_bytes)},
          {"provenance", "measured"}};
}

Json pool_json(const CardUsage& gap) {
  return {{"reserved_bytes", gap.reserved_bytes},
          {"allocated_bytes", gap.allocated_bytes},
          {"requested_bytes", gap.requested_bytes},
          {"waiting_bytes", gap.pending_bytes},
          {"cached_bytes", gap.cached_bytes},
          {"split_bytes", gap.split_bytes},
          {"provenance", "measured"}};
}

Json outside_json(const Store& store, const CardUsage& gap) {
  if (!gap.outside_bytes) return {};
  Json kinds = Json::object();
  for (std::size_t kind = 0; kind < gap.outside_by_kind.size(); ++kind) {
    if (gap.outside_by_kind[kind] == 0) continue;
    kinds[std::string(outside_kind_name(static_cast<OutsideKind>(kind)))] = {
        {"bytes", gap.outside_by_kind[kind]}, {"provenance", "inferred"}};
  }
  Json growth = Json::array();
  for (const OutsideGrowth& step : gap.growth) {
    Json row = {{"before_event", step.before_event},
                {"bytes", step.bytes},
                {"kind", std::string(outside_kind_name(step.kind))},
                {"place", Json()}};
    if (!step.stack.is_none()) {
      const Frame& frame = store.frame(store.stacks().frame(step.stack));
      row["place"] = std::string(store.text(frame.file)) + ":" + std::to_string(frame.line);
    }
    growth.push_back(std::move(row));
  }
  return {{"bytes", *gap.outside_bytes},
          {"provenance", "measured"},
          {"by_kind", std::move(kinds)},
          {"growth", std::move(growth)}};
}

}  // namespace

Json card_usage_json(const Store& store, const std::optional<CardUsage>& gap) {
  if (!gap) return {};
  return {{"before_event", gap->before_event},
          {"time_us",
           gap->time_ns == kUnknownTime ? Json() : Json(gap->time_ns / kNanosecondsPerMicrosecond)},
          {"is_consistent", gap->is_consistent},
          {"card", card_json(*gap)},
          {"pool", pool_json(*gap)},
          {"outside", outside_json(store, *gap)}};
}

}  // namespace gpumemprof
