// Answers about a run as a whole: its verdict, its steps, and what remedies would change.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "analysis/advice/advice.h"
#include "analysis/leaks/leak_series.h"
#include "analysis/overview/overview.h"
#include "analysis/timeline/timeline.h"
#include "store/store.h"

namespace gpumemprof::view {

// The report's first sentences about each device, as a list.
std::string verdicts_json(const Overview& overview, const Store& store);

// `times`: of the device's events; nullptr: they are not known one by one. `series`: likewise.
std::string steps_answer_json(const DeviceOverview& device, const Store& store,
                              const EventTimes* times, const LeakSeries* series);

// An Error becomes a sentence of the answer: the page says why, and shows what else there is.
std::string advice_answer_json(const Result<Advice>& advice, const Store& store);

struct PredictedTogether {
  Remedy remedy;
  std::uint64_t whole_bytes = 0;  // what savings are relative to
  std::uint32_t first_event = 0;  // of the run, where the first point begins
  std::uint32_t events_per_point = 1;
  std::vector<std::uint64_t> most_bytes;
  std::vector<std::int64_t> starts_ns;  // of each point; empty: not known
};
// Numbers, each as its difference from the one before.
std::string differences_json(const std::vector<std::int64_t>& values);
std::string together_answer_json(const Result<PredictedTogether>& predicted);

}  // namespace gpumemprof::view
