// Figures over time: moments, sources and steps; and documents in JSON.
#include <cstdlib>

#include "analysis/info/recording_info.h"
#include "api/reader/json_text.h"
#include "api/reader/opened_recording.h"
#include "report/json/info_json.h"
#include "report/json/overview_json.h"
#include "report/leaks/leaks_json.h"
#include "session/file_info.h"

namespace gpumemprof::api {
namespace {

gpumemprof_moment moment_row(const OpenedDevice& device, std::uint32_t event) {
  gpumemprof_moment row{};
  row.event = event;
  if (const PhaseSpan* span = span_at(device.spans(), event)) {
    row.step = span->step;
    row.phase = static_cast<std::int32_t>(span->phase);
  }
  row.time_ns = device.record().events.time_ns[event];
  row.totals = device.shown(device.totals()[event]);
  return row;
}

gpumemprof_source source_row(MemorySource source, const SourceFigure& figure) {
  return {static_cast<std::int32_t>(source),
          static_cast<std::int32_t>(figure.provenance),
          figure.bytes_at_peak,
          figure.bytes_max,
          figure.max_event,
          static_cast<std::int32_t>(figure.max_provenance)};
}

gpumemprof_step step_row(const StepFigures& step) {
  return {step.step,       step.first_event, step.last_event,  step.peak_event,
          step.peak_bytes, step.live_bytes,  step.floor_bytes, shown_sources(step.at_peak)};
}

}  // namespace
}  // namespace gpumemprof::api

using namespace gpumemprof;

size_t gpumemprof_read_moments(const gpumemprof_recording* recording, uint32_t device,
                               uint64_t first, gpumemprof_moment* rows, size_t count,
                               size_t row_size) {
  const api::OpenedDevice* opened = api::device_of(recording, device);
  if (opened == nullptr) return 0;
  return api::guarded<std::size_t>(0, nullptr, [&] {
    return api::fill_rows(rows, count, row_size, first, opened->record().events.size(),
                          [&](std::uint64_t row) {
                            return api::moment_row(*opened, static_cast<std::uint32_t>(row));
                          });
  });
}

int gpumemprof_sources_at(const gpumemprof_recording* recording, uint32_t device, uint32_t event,
                          gpumemprof_source_bytes* out, size_t out_size, gpumemprof_error** error) {
  return api::guarded(0, error, [&] {
    if (recording == nullptr) {
      api::report(error, api::no_object("recording"));
      return 0;
    }
    const api::OpenedDevice* opened = recording->device(device);
    const std::size_t events = opened == nullptr ? 0 : opened->record().events.size();
    if (event >= events) {
      api::report(error,
                  no_such_event(recording->recording->path(),
                                opened == nullptr ? "this device" : opened->name(), event, events));
      return 0;
    }
    const DeviceRecord& record = opened->record();
    const SourceBytes bytes = sources_at(record, record.labels, Moment::after(event));
    api::fill(out, out_size, api::shown_sources(bytes));
    return 1;
  });
}

size_t gpumemprof_read_sources(const gpumemprof_recording* recording, uint32_t device,
                               uint64_t first, gpumemprof_source* rows, size_t count,
                               size_t row_size) {
  const api::OpenedDevice* opened = api::device_of(recording, device);
  if (opened == nullptr) return 0;
  return api::guarded<std::size_t>(0, nullptr, [&] {
    const DeviceSources& sources = opened->sources();
    return api::fill_rows(rows, count, row_size, first, kMemorySources.size(),
                          [&](std::uint64_t row) {
                            const MemorySource source = kMemorySources[row];
                            return api::source_row(source, sources.figure(source));
                          });
  });
}

size_t gpumemprof_read_steps(const gpumemprof_recording* recording, uint32_t device, uint64_t first,
                             gpumemprof_step* rows, size_t count, size_t row_size) {
  const api::OpenedDevice* opened = api::device_of(recording, device);
  if (opened == nullptr) return 0;
  return api::guarded<std::size_t>(0, nullptr, [&] {
    const std::vector<StepFigures>& steps = opened->sources().steps;
    return api::fill_rows(rows, count, row_size, first, steps.size(),
                          [&](std::uint64_t row) { return api::step_row(steps[row]); });
  });
}

char* gpumemprof_info_json(const gpumemprof_recording* recording, gpumemprof_error** error) {
  return api::json_text(error, [&]() -> Result<std::string> {
    if (recording == nullptr) return api::no_object("recording");
    const Result<FileInfo> file = look_at_file(recording->recording->path());
    if (!file) return file.error();
    return info_json(find_info(recording->recording->store(), file.value()));
  });
}

char* gpumemprof_report_json(const gpumemprof_recording* recording, gpumemprof_error** error) {
  return api::json_text(error, [&]() -> Result<std::string> {
    if (recording == nullptr) return api::no_object("recording");
    const Result<Overview> overview = recording->recording->overview();
    if (!overview) return overview.error();
    return overview_json(overview.value(), recording->recording->store(), kAllGroups);
  });
}

char* gpumemprof_leaks_json(const gpumemprof_recording* recording, gpumemprof_error** error) {
  return api::json_text(error, [&]() -> Result<std::string> {
    if (recording == nullptr) return api::no_object("recording");
    const Result<LeaksReport> leaks = recording->recording->leaks();
    if (!leaks) return leaks.error();
    return leaks_json(leaks.value(), recording->recording->store());
  });
}

void gpumemprof_text_free(char* text) { std::free(text); }
