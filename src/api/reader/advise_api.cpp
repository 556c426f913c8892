// What each remedy would save.
#include <limits>

#include "api/reader/json_text.h"
#include "api/reader/opened_recording.h"
#include "report/json/advice_json.h"

struct gpumemprof_advice {
  gpumemprof::Advice advice;
  std::shared_ptr<const gpumemprof::Recording> recording;  // whose store the advice refers to
  std::string fit_names;
  // The command line's sentences of `advice` in the words of this interface.
  std::vector<std::string> whys;  // by remedy
  std::string partial;
  std::string fit_refusal;
};

namespace gpumemprof::api {
namespace {

Result<AdviceOptions> advice_options(const gpumemprof_advise_options& given) {
  const auto known = [](std::uint64_t value) {
    return value == GPUMEMPROF_UNKNOWN ? std::nullopt : std::optional(value);
  };
  AdviceOptions options;
  options.fit_bytes = known(given.fit_bytes);
  options.batch = known(given.batch);
  options.sequence = known(given.sequence);
  if (given.device != GPUMEMPROF_ANY_DEVICE) {
    options.device = device_index(given.device);
    if (!options.device) return no_device(given.device);
  }
  return options;
}

gpumemprof_predicted shown_prediction(const std::optional<PredictedBytes>& predicted) {
  if (!predicted) return {GPUMEMPROF_UNKNOWN, GPUMEMPROF_UNKNOWN, GPUMEMPROF_UNKNOWN};
  return {predicted->bytes, predicted->low_bytes, predicted->high_bytes};
}

gpumemprof_remedy remedy_row(const Remedy& remedy, const std::string& why) {
  gpumemprof_remedy row{};
  row.name = text_of(remedy.name);
  row.title = text_of(remedy.title);
  row.cost = static_cast<std::int32_t>(remedy.cost);
  row.provenance = static_cast<std::int32_t>(remedy.provenance);
  row.peak_allocated = shown_prediction(remedy.peak_allocated);
  row.peak_reserved = shown_prediction(remedy.peak_reserved);
  row.at_least_bytes = remedy.at_least_bytes.value_or(GPUMEMPROF_UNKNOWN);
  row.saving_bytes = remedy.peak_allocated ? remedy.saving_bytes : GPUMEMPROF_UNKNOWN_SAVING;
  row.slowdown_percent = remedy.slowdown_pct.value_or(std::numeric_limits<double>::quiet_NaN());
  row.is_slowdown_measured = remedy.is_slowdown_measured ? 1 : 0;
  row.why = text_of(why);
  row.how = text_of(remedy.how);
  return row;
}

void add_fit(const FitPlan& fit, gpumemprof_advice_summary& summary) {
  summary.fits_already = fit.fits_already ? 1 : 0;
  summary.is_fit_found = fit.is_found ? 1 : 0;
  if (!fit.is_found || fit.fits_already) return;
  summary.fit_peak_allocated = shown_prediction(fit.set.peak_allocated);
  summary.fit_peak_reserved = shown_prediction(fit.set.peak_reserved);
}

std::string joined_names(const std::optional<FitPlan>& fit) {
  std::string names;
  if (!fit || !fit->is_found) return names;
  for (const std::string& name : fit->set.names) names += (names.empty() ? "" : "+") + name;
  return names;
}

gpumemprof_advice* handed_out_advice(Advice made, std::shared_ptr<const Recording> recording) {
  auto advice = std::make_unique<gpumemprof_advice>();
  advice->recording = std::move(recording);
  advice->fit_names = joined_names(made.fit);
  for (const Remedy& remedy : made.remedies) advice->whys.push_back(in_api_words(remedy.why));
  advice->partial = in_api_words(made.partial);
  if (made.fit) advice->fit_refusal = in_api_words(made.fit->refusal);
  advice->advice = std::move(made);
  return advice.release();
}

}  // namespace
}  // namespace gpumemprof::api

using namespace gpumemprof;

gpumemprof_advice* gpumemprof_advise(const gpumemprof_recording* recording,
                                     const gpumemprof_advise_options* options, size_t options_size,
                                     gpumemprof_error** error) {
  return api::guarded<gpumemprof_advice*>(nullptr, error, [&]() -> gpumemprof_advice* {
    if (recording == nullptr) {
      api::report(error, api::no_object("recording"));
      return nullptr;
    }
    const gpumemprof_advise_options defaults = {GPUMEMPROF_UNKNOWN, GPUMEMPROF_UNKNOWN,
                                                GPUMEMPROF_UNKNOWN, GPUMEMPROF_ANY_DEVICE, nullptr};
    const gpumemprof_advise_options asked = api::taken(options, options_size, defaults);
    const Result<AdviceOptions> wanted = api::advice_options(asked);
    Result<Advice> made =
        wanted
            ? recording->recording->advise(
                  wanted.value(), asked.other == nullptr ? nullptr : asked.other->recording.get())
            : Result<Advice>(wanted.error());
    if (!made) {
      api::report(error, made.error());
      return nullptr;
    }
    return api::handed_out_advice(std::move(made).value(), recording->recording);
  });
}

void gpumemprof_get_advice(const gpumemprof_advice* advice, gpumemprof_advice_summary* out,
                           size_t out_size) {
  if (advice == nullptr) return api::fill(out, out_size, gpumemprof_advice_summary{});
  const Advice& made = advice->advice;
  gpumemprof_advice_summary summary{};
  summary.device = made.device;
  summary.run_kind = static_cast<std::int32_t>(made.kind);
  summary.peak_allocated_bytes = made.peak_allocated_bytes;
  summary.peak_reserved_bytes = made.has_pool ? made.peak_reserved_bytes : GPUMEMPROF_UNKNOWN;
  summary.partial = api::text_of(advice->partial);
  summary.fit_refusal = api::text_of(advice->fit_refusal);
  summary.fit_names = api::text_of(advice->fit_names);
  summary.fit_peak_allocated = api::shown_prediction(std::nullopt);
  summary.fit_peak_reserved = api::shown_prediction(std::nullopt);
  if (made.fit) api::add_fit(*made.fit, summary);
  api::fill(out, out_size, summary);
}

size_t gpumemprof_read_remedies(const gpumemprof_advice* advice, uint64_t first,
                                gpumemprof_remedy* rows, size_t count, size_t row_size) {
  if (advice == nullptr) return 0;
  const std::vector<Remedy>& remedies = advice->advice.remedies;
  return api::fill_rows(rows, count, row_size, first, remedies.size(), [&](std::uint64_t row) {
    return api::remedy_row(remedies[row], advice->whys[row]);
  });
}

void gpumemprof_advice_free(gpumemprof_advice* advice) { delete advice; }

char* gpumemprof_advice_json(const gpumemprof_advice* advice, gpumemprof_error** error) {
  return api::json_text(error, [&]() -> Result<std::string> {
    if (advice == nullptr) return api::no_object("advice");
    return advice_json(advice->advice, advice->recording->store());
  });
}
