#include "report/json/completeness_json.h"

#include <nlohmann/json.hpp>

#include "report/text/overview/completeness_text.h"

namespace gpumemprof {
namespace {

using Json = nlohmann::ordered_json;

Json counts_json(const EventCounts& counts) {
  return {{"allocations", counts.allocations}, {"frees", counts.frees}, {"others", counts.others}};
}

Json counts_or_null(const std::optional<EventCounts>& counts) {
  return counts ? counts_json(*counts) : Json();
}

Json us_or_null(std::int64_t time_ns) {
  return time_ns == kUnknownTime ? Json() : Json(time_ns / 1000);
}

Json period_json(const LostPeriod& period) {
  return {{"device", period.device},
          {"from_event", period.from_event},
          {"to_event", period.to_event},
          {"from_us", us_or_null(period.from_ns)},
          {"to_us", us_or_null(period.to_ns)},
          {"lost_events", period.events ? Json(*period.events) : Json()},
          {"lost_allocations", period.events ? Json(period.allocations) : Json()},
          {"lost_frees", period.events ? Json(period.frees) : Json()},
          {"is_summarised", period.is_summarised}};
}

Json excerpt_json(const Completeness::Excerpt& excerpt) {
  const ExcerptRange& range = excerpt.range;
  const bool has_steps = range.first_step > 0;
  return {{"device", excerpt.device},
          {"from_event", range.from},
          {"to_event", range.to},
          {"first_step", has_steps ? Json(range.first_step) : Json()},
          {"last_step", has_steps ? Json(range.last_step) : Json()},
          {"events_of_run", range.run_events},
          {"lead_in_events", range.lead_in},
          {"is_around_peak", range.is_around_peak}};
}

}  // namespace

Json completeness_json(const Completeness& found) {
  Json json;
  json["is_whole"] = found.is_recording ? Json(found.is_whole()) : Json();
  json["is_closed"] = found.is_recording ? Json(found.is_closed) : Json();
  json["ended"] = found.is_recording && found.is_closed ? Json(found.reason) : Json();
  json["problem"] = found.problem.empty() ? Json() : Json(found.problem);
  json["made"] = counts_or_null(found.made);
  json["recorded"] = counts_json(found.recorded);
  json["lost"] = counts_or_null(found.lost);
  json["summarised"] = found.chapters.empty() ? Json() : counts_json(found.summarised);
  json["exact_until_us"] = us_or_null(found.exact_until_ns);
  json["gaps"] = Json::array();
  for (const LostPeriod& period : found.lost_periods) json["gaps"].push_back(period_json(period));
  json["excerpt"] = found.excerpts.empty() ? Json() : Json::array();
  for (const Completeness::Excerpt& excerpt : found.excerpts)
    json["excerpt"].push_back(excerpt_json(excerpt));
  json["what_is_missing"] = text::missing_sentences(found);
  return json;
}

std::string completeness_document(const Completeness& found) {
  return completeness_json(found).dump(-1, ' ', false, Json::error_handler_t::replace);
}

}  // namespace gpumemprof
