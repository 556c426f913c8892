#include "report/view/answers/answers_json.h"

#include <fmt/core.h>

#include <iterator>

#include "report/json/advice_json.h"
#include "report/json/growth_json.h"
#include "report/json/sources_json.h"
#include "report/leaks/leaks_summary_json.h"
#include "report/text/heading/verdict_text.h"
#include "report/text/overview/growth_text.h"
#include "report/text/overview/oom_text.h"
#include "report/text/text_format.h"
#include "report/view/labels.h"

namespace gpumemprof::view {
namespace {

constexpr std::size_t kStepsInAnswer = 1000;  // as many as `report --json` lists

Json verdict_of(const Overview& overview, const DeviceOverview& device, const Store& store) {
  Json details = Json::array();
  text::OomRemedy remedy;
  for (std::size_t index = 0; index < device.ooms.size(); ++index) {
    const OomReport& oom = device.ooms[index];
    if (device.replay.counters.ooms > 1) details.push_back(text::one_failure(device, index, store));
    if (const std::string more = text::oom_details(oom); !more.empty()) details.push_back(more);
    details.push_back(text::oom_facts(oom));
    if (index == 0) remedy = text::oom_remedy(oom, store, text::file_name(overview.path));
  }
  return {{"device", device.name},
          {"failure", text::failure_headline(device, store)},
          {"failure_details", details},
          {"remedy", remedy.sentence},
          {"command", remedy.command},
          {"peak", device.replay.has_history ? text::peak_headline(device, store.facts().has_pool())
                                             : std::string()},
          {"growth", text::growth_verdict(device.growth, device.leaks, store)},
          {"is_predicted", store.origin().kind == kPredictedRun}};
}

// Differences from one value to the next, which are mostly small.
template <typename T>
Json differences(const std::vector<T>& values) {
  Json json = Json::array();
  std::int64_t before = 0;
  for (const T value : values) {
    json.push_back(static_cast<std::int64_t>(value) - before);
    before = static_cast<std::int64_t>(value);
  }
  return json;
}

Json series_answer(const LeakSeries* series) {
  if (series == nullptr) return {};
  return {{"step", series->step}, {"bytes", series->bytes}};
}

Json refusal_of(const Error& error) { return error.sentence(); }

}  // namespace

std::string verdicts_json(const Overview& overview, const Store& store) {
  Json verdicts = Json::array();
  for (const DeviceOverview& device : overview.devices)
    verdicts.push_back(verdict_of(overview, device, store));
  return dump(verdicts);
}

std::string steps_answer_json(const DeviceOverview& device, const Store& store,
                              const EventTimes* times, const LeakSeries* series) {
  const std::vector<StepFigures>& all = device.sources.steps;
  Json steps = steps_json(device.sources, kStepsInAnswer);
  std::uint64_t left_out = all.size() - steps.size();
  for (const StepFigures& step : all) left_out += step.left_out.count;
  const auto time_of = [&](const Json& event) -> Json {
    if (times == nullptr || !times->is_known()) return {};
    return times->since_first(times->of_event(event.get<std::uint32_t>()));
  };
  for (Json& step : steps) {
    step["from_ns"] = time_of(step["first_event"]);
    step["to_ns"] = time_of(step["last_event"]);
    step.erase("sources_at_peak");
    for (Json& phase : step["phases"]) phase.erase("sources_at_peak");
  }
  return dump({{"steps", steps},
               {"left_out", left_out},
               {"run_kind", run_kind_name(device.sources.kind)},
               {"growth", growth_json(device.growth, store)},
               {"leaks", device.leaks ? leaks_summary_json(*device.leaks, store) : Json()},
               {"series", series_answer(series)}});
}

std::string advice_answer_json(const Result<Advice>& advice, const Store& store) {
  Json families = Json::object();
  if (!advice)
    return dump(
        {{"refusal", refusal_of(advice.error())}, {"advice", Json()}, {"families", families}});
  for (const RemedyEntry& entry : list_remedies()) {
    if (entry.kind == advice.value().kind && !entry.family.empty())
      families[entry.name] = entry.family;
  }
  return fmt::format(R"({{"refusal":null,"advice":{},"families":{}}})",
                     advice_json(advice.value(), store), dump(families));
}

std::string differences_json(const std::vector<std::int64_t>& values) {
  return dump(differences(values));
}

std::string together_answer_json(const Result<PredictedTogether>& predicted) {
  if (!predicted) {
    return dump({{"refusal", refusal_of(predicted.error())},
                 {"remedy", Json()},
                 {"first_event", 0},
                 {"events_per_point", 1},
                 {"most_bytes", Json::array()},
                 {"time_ns", Json::array()}});
  }
  const PredictedTogether& together = predicted.value();
  return fmt::format(
      R"({{"refusal":null,"remedy":{},"first_event":{},"events_per_point":{},"most_bytes":{},"time_ns":{}}})",
      remedy_text_json(together.remedy, together.whole_bytes), together.first_event,
      together.events_per_point, dump(differences(together.most_bytes)),
      dump(differences(together.starts_ns)));
}

}  // namespace gpumemprof::view
