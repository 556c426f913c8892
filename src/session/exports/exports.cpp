#include "session/exports/exports.h"

#include <algorithm>

#include "analysis/stack_profile/stack_profile.h"
#include "report/about/about.h"
#include "report/perfetto/memory_trace.h"
#include "report/profile/pprof.h"
#include "report/profile/speedscope.h"
#include "session/exports/kineto_clock.h"

namespace gpumemprof {
namespace {

// The devices that are asked for; an Error if there is no such device or event.
Result<std::vector<TabledRun::Device>> asked_devices(const TabledRun& run,
                                                     const ExportOptions& options) {
  std::vector<TabledRun::Device> asked;
  std::string known;
  for (const TabledRun::Device& device : run.devices()) {
    const std::string name = run.store().device_name(device.device);
    known += (known.empty() ? "" : ", ") + name;
    if (options.device && *options.device != device.device) continue;
    const bool is_event = options.at && options.at->kind == AskedMoment::Kind::event;
    if (is_event && options.at->event >= device.events)
      return no_such_event(run.path(), name, options.at->event, device.events);
    asked.push_back(device);
  }
  if (options.device && asked.empty()) return no_such_device(run.path(), *options.device, known);
  return asked;
}

std::vector<ProfiledMoment> moments_of(const std::vector<TabledRun::Device>& devices,
                                       AskedMoment asked) {
  std::vector<ProfiledMoment> moments;
  moments.reserve(devices.size());
  for (const TabledRun::Device& device : devices)
    moments.push_back(profiled_moment(device.device, device.replay, asked));
  return moments;
}

void add_window(const TableWindow& window, StackProfileSum& sum) {
  sum.add(window.record, window.rows, window.births, window.frees);
  sum.note_time(window.record, window.first_event, window.events, window.first_number);
}

std::vector<AboutLine> about_of(const TabledRun& run) {
  return about_run(run.path(), run.store(), run.completeness());
}

// Nothing is read for a file that cannot be written.
Status write_text(FileSink& file, const std::string& text) {
  const Status written = file.write(std::as_bytes(std::span(text)));
  return written ? file.close() : written;
}

}  // namespace

Status write_pprof(TabledRun& run, const ExportOptions& options, const std::string& path,
                   FileSink::Existing existing) {
  const auto devices = asked_devices(run, options);
  if (!devices) return devices.error();
  const auto file = FileSink::create(path, existing, FileSink::Appears::when_closed);
  if (!file) return file.error();
  StackProfileSum sum(moments_of(devices.value(), options.at.value_or(AskedMoment())));
  Status shown = run.show([&](const TableWindow& window) { add_window(window, sum); });
  if (!shown) return shown;
  return write_text(*file.value(), pprof_profile(sum.finish(), run.store(), about_of(run)));
}

Status write_speedscope(TabledRun& run, const ExportOptions& options, const std::string& path,
                        FileSink::Existing existing) {
  const auto devices = asked_devices(run, options);
  if (!devices) return devices.error();
  const auto file = FileSink::create(path, existing, FileSink::Appears::when_closed);
  if (!file) return file.error();
  std::vector<StackProfileSum> sums;
  sums.emplace_back(moments_of(devices.value(), options.at.value_or(AskedMoment())));
  // Not asked for a moment: the end as well, where it says something else.
  const bool has_history = std::ranges::any_of(
      devices.value(), [](const TabledRun::Device& one) { return one.replay.has_history; });
  if (!options.at && has_history)
    sums.emplace_back(moments_of(devices.value(), {AskedMoment::Kind::end, 0}));
  Status shown = run.show([&](const TableWindow& window) {
    for (StackProfileSum& sum : sums) add_window(window, sum);
  });
  if (!shown) return shown;
  std::vector<StackProfile> profiles;
  profiles.reserve(sums.size());
  for (StackProfileSum& sum : sums) profiles.push_back(sum.finish());
  return write_text(*file.value(), speedscope_profile(profiles, run.store(), about_of(run)));
}

Status write_perfetto(TabledRun& run, const ExportOptions& options, const std::string& path,
                      FileSink::Existing existing) {
  const auto devices = asked_devices(run, options);
  if (!devices) return devices.error();
  const bool has_times = std::ranges::any_of(devices.value(), [](const TabledRun::Device& one) {
    return one.first_time_ns != kUnknownTime;
  });
  if (!has_times)
    return Error{ErrorCode::bad_input, "it has no events with times, which a trace needs",
                 run.path(), "write a profile instead: --to pprof"};
  std::int64_t base_ns = 0;
  if (!options.clock_of.empty()) {
    const Result<std::int64_t> base = kineto_base_ns(options.clock_of);
    if (!base) return base.error();
    base_ns = base.value();
    const bool is_before = std::ranges::any_of(devices.value(), [&](const TabledRun::Device& one) {
      return one.first_time_ns != kUnknownTime && one.first_time_ns < base_ns;
    });
    if (is_before)
      return Error{ErrorCode::bad_input, "its clock begins after this recording", options.clock_of,
                   "name a trace that torch.profiler wrote of the same run"};
  }
  auto file = FileSink::create(path, existing, FileSink::Appears::when_closed);
  if (!file) return file.error();
  MemoryTrace trace(std::move(file).value(), run.store(), about_of(run), base_ns);
  for (const TabledRun::Device& device : devices.value()) {
    const bool has_pool = run.store().facts().has_pool() && device.replay.peak_reserved_bytes > 0;
    trace.add_device({device.device, has_pool, device.lost_events, device.first_time_ns});
  }
  StackProfileSum sum(moments_of(devices.value(), options.at.value_or(AskedMoment())));
  Status shown = run.show([&](const TableWindow& window) {
    add_window(window, sum);
    trace.add({window.record, window.first_event, window.events, window.first_number == 0},
              window.spans);
  });
  if (!shown) return shown;
  return trace.finish(sum.finish());
}

}  // namespace gpumemprof
