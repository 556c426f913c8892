#include "report/json/advice_json.h"

#include <nlohmann/json.hpp>

#include "report/json/completeness_json.h"
#include "report/json/growth_json.h"

namespace gpumemprof {
namespace {

using Json = nlohmann::ordered_json;

constexpr int kAdviceSchemaVersion = 1;

template <typename T>
Json or_null(const std::optional<T>& value) {
  return value ? Json(*value) : Json();
}

Json band_json(const std::optional<PredictedBytes>& predicted) {
  if (!predicted) return {};
  return {{"low_bytes", predicted->low_bytes}, {"high_bytes", predicted->high_bytes}};
}

Json bytes_json(const std::optional<PredictedBytes>& predicted) {
  return predicted ? Json(predicted->bytes) : Json();
}

Json sources_json(const SourceBytes& bytes) {
  Json json;
  for (const MemorySourceInfo& info : kMemorySourceTable) {
    if (info.is_listed(bytes[info.source])) json[std::string(info.name)] = bytes[info.source];
  }
  return json;
}

Json slowdown_provenance_json(const std::optional<double>& pct, bool is_measured) {
  if (!pct) return {};
  return is_measured ? "estimated" : "rule_of_thumb";
}

Json remedy_json(const Remedy& remedy, std::uint64_t baseline_bytes) {
  Json json;
  json["name"] = remedy.name;
  json["title"] = remedy.title;
  json["cost"] = remedy_cost_name(remedy.cost);
  json["predicted_peak_allocated_bytes"] = bytes_json(remedy.peak_allocated);
  json["predicted_peak_allocated_band"] = band_json(remedy.peak_allocated);
  json["predicted_peak_reserved_bytes"] = bytes_json(remedy.peak_reserved);
  json["predicted_peak_reserved_band"] = band_json(remedy.peak_reserved);
  json["at_least_peak_allocated_bytes"] = or_null(remedy.at_least_bytes);
  const bool is_known = remedy.peak_allocated.has_value();
  json["saving_bytes"] = is_known ? Json(remedy.saving_bytes) : Json();
  json["saving_pct"] = is_known && baseline_bytes > 0
                           ? Json(100.0 * static_cast<double>(remedy.saving_bytes) /
                                  static_cast<double>(baseline_bytes))
                           : Json();
  json["slowdown_pct"] = or_null(remedy.slowdown_pct);
  json["slowdown_provenance"] =
      slowdown_provenance_json(remedy.slowdown_pct, remedy.is_slowdown_measured);
  json["provenance"] = provenance_name(remedy.provenance);
  json["peak_phase"] = is_known ? Json(phase_name(remedy.after.phase)) : Json();
  json["why"] = remedy.why;
  json["how"] = remedy.how;
  json["how_trainer"] = remedy.how_trainer.empty() ? Json() : Json(remedy.how_trainer);
  return json;
}

Json checkpointed_json(const std::optional<CheckpointedBlocks>& blocks) {
  if (!blocks) return {};
  return {{"blocks", blocks->which.size()},
          {"of", blocks->of},
          {"which", blocks->which},
          {"modules", blocks->modules.empty() ? Json() : Json(blocks->modules)},
          {"how", blocks->how}};
}

Json code_json(const std::vector<RemedyCode>& codes) {
  Json json = Json::array();
  for (const RemedyCode& code : codes)
    json.push_back({{"name", code.name},
                    {"how", code.how},
                    {"how_trainer", code.how_trainer.empty() ? Json() : Json(code.how_trainer)}});
  return json;
}

// Written into `json`; everything is null where no set fits.
void add_set(Json& json, const RemedySet* set) {
  const std::optional<PredictedBytes> allocated =
      set != nullptr ? std::optional(set->peak_allocated) : std::nullopt;
  const std::optional<PredictedBytes> reserved = set != nullptr ? set->peak_reserved : std::nullopt;
  json["remedies"] = set != nullptr ? Json(set->names) : Json();
  json["predicted_peak_allocated_bytes"] = bytes_json(allocated);
  json["predicted_peak_allocated_band"] = band_json(allocated);
  json["predicted_peak_reserved_bytes"] = bytes_json(reserved);
  json["predicted_peak_reserved_band"] = band_json(reserved);
  json["slowdown_pct"] = set != nullptr ? or_null(set->slowdown_pct) : Json();
  json["slowdown_provenance"] =
      set != nullptr ? slowdown_provenance_json(set->slowdown_pct, set->is_slowdown_measured)
                     : Json();
  json["code"] = set != nullptr ? code_json(set->code) : Json();
  json["checkpointing"] = set != nullptr ? checkpointed_json(set->checkpointed) : Json();
}

Json fit_json(const FitPlan& plan) {
  Json json;
  json["limit_bytes"] = plan.limit_bytes;
  json["is_found"] = plan.is_found;
  json["refusal"] = plan.refusal.empty() ? Json() : Json(plan.refusal);
  add_set(json, plan.is_found ? &plan.set : nullptr);
  json["largest_batch_factor"] = plan.is_found ? Json(plan.largest_batch_factor) : Json();
  json["largest_batch"] = or_null(plan.largest_batch);
  json["largest_sequence_factor"] = or_null(plan.largest_sequence_factor);
  json["largest_sequence"] = or_null(plan.largest_sequence);
  json["alternatives"] = Json::array();
  for (const RemedySet& set : plan.alternatives) {
    Json entry;
    add_set(entry, &set);
    json["alternatives"].push_back(std::move(entry));
  }
  json["least"] = Json();
  if (plan.least) {
    json["least"] = {{"limit_bytes", plan.least_limit_bytes}};
    add_set(json["least"], &*plan.least);
  }
  return json;
}

}  // namespace

std::string remedy_text_json(const Remedy& remedy, std::uint64_t whole_bytes) {
  return remedy_json(remedy, whole_bytes).dump(-1, ' ', false, Json::error_handler_t::replace);
}

std::string advice_json(const Advice& advice, const Store& store) {
  Json json;
  json["schema_version"] = kAdviceSchemaVersion;
  json["input"] = {{"path", advice.path}, {"device", advice.device_name}};
  json["completeness"] = completeness_json(advice.completeness);
  json["baseline"] = {
      {"peak_allocated_bytes", advice.peak_allocated_bytes},
      {"peak_reserved_bytes", advice.has_pool ? Json(advice.peak_reserved_bytes) : Json()},
      {"peak_phase", phase_name(advice.baseline.phase)},
      {"at_peak", sources_json(advice.baseline.by_source)}};
  json["completed"] = Json();
  if (advice.completed) {
    json["completed"] = {{"peak_allocated_bytes", advice.completed->peak_allocated_bytes},
                         {"peak_reserved_bytes",
                          advice.has_pool ? Json(advice.completed->peak_reserved_bytes) : Json()},
                         {"how", advice.completed->how}};
  }
  json["partial"] = advice.partial.empty() ? Json() : Json(advice.partial);
  json["growth"] = growth_json(advice.growth, store);
  const std::uint64_t whole_bytes =
      advice.completed ? advice.completed->peak_allocated_bytes : advice.peak_allocated_bytes;
  json["remedies"] = Json::array();
  for (const Remedy& remedy : advice.remedies)
    json["remedies"].push_back(remedy_json(remedy, whole_bytes));
  json["fit"] = advice.fit ? fit_json(*advice.fit) : Json();
  json["missing"] = advice.missing;
  return json.dump(2, ' ', false, Json::error_handler_t::replace);
}

}  // namespace gpumemprof
