#include "report/json/whatif_json.h"

#include <nlohmann/json.hpp>

#include "report/json/completeness_json.h"
#include "report/json/event_json.h"

namespace gpumemprof {
namespace {

using Json = nlohmann::ordered_json;

constexpr int kWhatIfSchemaVersion = 1;

Json limit_or_null(std::uint64_t bytes) { return bytes == sim::kNoLimit ? Json() : Json(bytes); }

Json run_json(const WhatIfRun& run) {
  const sim::SimulationResult& result = run.result;
  return {{"alloc_conf", run.alloc_conf},
          {"memory_limit_bytes", limit_or_null(run.memory_limit_bytes)},
          {"is_recorded", run.is_recorded},
          {"provenance", "simulated"},
          {"peak_allocated_bytes", result.peak_allocated_bytes},
          {"peak_reserved_bytes", result.peak_reserved_bytes},
          {"fragmentation", result.fragmentation_at_peak()},
          {"num_alloc_retries", result.counters.num_alloc_retries},
          {"num_ooms", result.num_ooms()},
          {"first_oom_event", event_or_null(result.first_oom_event)},
          {"num_device_alloc", result.counters.num_device_alloc},
          {"num_device_free", result.counters.num_device_free},
          {"min_memory_bytes", run.min_memory_bytes ? Json(*run.min_memory_bytes) : Json()}};
}

Json verified_json(const DeviceWhatIf& device) {
  const sim::Verification& verified = device.verified;
  return {{"allocations", verified.allocations},
          {"address_mismatches", verified.address_mismatches},
          {"segment_calls", verified.segment_calls},
          {"segment_mismatches", verified.segment_mismatches},
          {"counters", verified.counters_compared},
          {"counter_mismatches", verified.counter_mismatches},
          {"first_mismatch_event", event_or_null(verified.first_mismatch_event)},
          {"first_event", device.first_event - device.lead_in},
          {"empty_caches", verified.empty_caches},
          {"num_alloc_retries", verified.counters.num_alloc_retries},
          {"memory_limit_bytes", limit_or_null(verified.limit.allowed_bytes)},
          {"is_limit_inferred", verified.inferred_limit.has_value()},
          {"torch_version", to_string(device.version)},
          {"is_version_inferred", device.is_version_inferred}};
}

}  // namespace

std::string whatif_json(const WhatIf& whatif) {
  Json json;
  json["schema_version"] = kWhatIfSchemaVersion;
  json["input"] = {{"path", whatif.path}};
  json["completeness"] = completeness_json(whatif.completeness);
  json["devices"] = Json::array();
  for (const DeviceWhatIf& device : whatif.devices) {
    Json entry;
    entry["device"] = device.name;
    entry["recorded_alloc_conf"] = device.recorded_conf;
    entry["verified"] = verified_json(device);
    const FreeShares& shares = device.pins.shares;
    entry["fragmentation_at_peak_reserved"] = {{"free_bytes", shares.free_bytes},
                                               {"pinned_bytes", shares.pinned_bytes},
                                               {"other_stream_bytes", shares.other_stream_bytes},
                                               {"surplus_bytes", shares.surplus_bytes}};
    entry["runs"] = Json::array();
    for (const WhatIfRun& run : device.runs) entry["runs"].push_back(run_json(run));
    json["devices"].push_back(entry);
  }
  return json.dump(2, ' ', false, Json::error_handler_t::replace);
}

}  // namespace gpumemprof
