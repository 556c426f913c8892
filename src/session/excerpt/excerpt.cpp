#include "session/excerpt/excerpt.h"

#include <algorithm>
#include <filesystem>
#include <system_error>

#include "session/excerpt/long_file.h"
#include "session/excerpt/part_source.h"

namespace gpumemprof {
namespace {

constexpr std::uint32_t kStepsBefore = 2;
constexpr std::uint32_t kStepsAfter = 1;
// Of a run without steps, on each side of its peak.
constexpr std::uint32_t kEventsAround = 500'000;

Error outside(const std::string& path, const std::string& what, const std::string& hint) {
  return {ErrorCode::usage, what, path, hint};
}

struct StepEvents {
  std::uint32_t first = 0;
  std::uint32_t end = 0;
};

// The events of steps [first, last]; none: there are no such steps.
std::optional<StepEvents> events_of_steps(const Survey::Result& found, std::uint32_t first,
                                          std::uint32_t last) {
  const std::vector<PhaseSpan>& spans = found.spans;
  const auto begin = std::ranges::lower_bound(spans, first, {}, &PhaseSpan::step);
  const auto end = std::ranges::upper_bound(spans, last, {}, &PhaseSpan::step);
  if (begin == end) return std::nullopt;
  return StepEvents{begin->first_event, end == spans.end() ? found.events : end->first_event};
}

std::uint32_t step_at(const std::vector<PhaseSpan>& spans, std::uint32_t event) {
  const auto after = std::ranges::upper_bound(spans, event, {}, &PhaseSpan::first_event);
  return after == spans.begin() ? 0 : std::prev(after)->step;
}

ExcerptRange range_of(const Survey::Result& found, std::uint32_t from, std::uint32_t to) {
  ExcerptRange range;
  range.from = from;
  range.to = to;
  range.run_events = found.events;
  range.last_step = step_at(found.spans, to - 1);
  range.first_step = std::min(std::max(step_at(found.spans, from), 1U), range.last_step);
  range.run_start_ns = found.extent.first_time_ns;
  return range;
}

ExcerptRange around_peak(const Survey::Result& found) {
  const std::uint32_t peak = found.replay.peak_event == kNoEvent ? 0 : found.replay.peak_event;
  const std::uint32_t last_step = found.spans.empty() ? 0 : found.spans.back().step;
  StepEvents events{peak - std::min(peak, kEventsAround),
                    std::min(found.events, peak + kEventsAround)};
  if (last_step > 0) {
    const std::uint32_t step = step_at(found.spans, peak);
    const std::uint32_t first = step > kStepsBefore ? step - kStepsBefore : std::min(step, 1U);
    events = events_of_steps(found, first, step + kStepsAfter).value_or(events);
  }
  // Steps without end: as much as may be held, the peak in it.
  const std::uint32_t half = kMostExcerptEvents / 2;
  events.first = std::max(events.first, peak - std::min(peak, half));
  events.end = std::min(events.end, peak + half);
  ExcerptRange range = range_of(found, events.first, events.end);
  range.is_around_peak = true;
  return range;
}

DeviceIndex highest_peak(const WindowedRun& run) {
  const std::vector<DeviceIndex> devices = run.devices();
  return *std::ranges::max_element(devices, {}, [&](DeviceIndex device) {
    return run.found(device)->replay.peak.allocated_bytes;
  });
}

Result<ExcerptRange> part_of_device(const WindowedRun& run, const std::string& path,
                                    const AskedPart& asked, DeviceIndex device) {
  const Survey::Result& found = *run.found(device);
  const std::string name = run.store().device_name(device);
  switch (asked.kind) {
    case AskedPart::Kind::peak:
      return around_peak(found);
    case AskedPart::Kind::events:
      if (asked.first >= asked.last || asked.last > found.events)
        return outside(path,
                       "the events " + std::to_string(asked.first) + ":" +
                           std::to_string(asked.last) + " are not in the run: " + name + " has " +
                           std::to_string(found.events) + " events",
                       "ask for events between 0 and " + std::to_string(found.events));
      return range_of(found, asked.first, asked.last);
    case AskedPart::Kind::steps:
      break;
  }
  const std::uint32_t steps = found.spans.empty() ? 0 : found.spans.back().step;
  const std::optional<StepEvents> events = events_of_steps(found, asked.first, asked.last);
  if (!events || asked.first > asked.last || asked.last > steps)
    return outside(path,
                   "the steps " + std::to_string(asked.first) + ":" + std::to_string(asked.last) +
                       " are not in the run: " + name + " has " + std::to_string(steps) + " steps",
                   steps == 0 ? "ask for events instead"
                              : "ask for steps between 1 and " + std::to_string(steps));
  return range_of(found, events->first, events->end);
}

}  // namespace

Result<std::map<DeviceIndex, ExcerptRange>> find_part(const WindowedRun& run,
                                                      const std::string& path,
                                                      const AskedPart& asked) {
  std::map<DeviceIndex, ExcerptRange> ranges;
  std::vector<DeviceIndex> devices;
  std::string known;
  for (const DeviceIndex device : run.devices()) {
    known += (known.empty() ? "" : ", ") + run.store().device_name(device);
    if (run.found(device)->events == 0 || (asked.device && *asked.device != device)) continue;
    devices.push_back(device);
  }
  if (devices.empty() && asked.device) return no_such_device(path, *asked.device, known);
  if (devices.empty())
    return outside(path, "the recording has no events", "record a run that allocates memory");
  // Event numbers are of one device.
  if (asked.kind == AskedPart::Kind::events) devices = {asked.device.value_or(highest_peak(run))};
  std::uint64_t events = 0;
  for (const DeviceIndex device : devices) {
    const Result<ExcerptRange> range = part_of_device(run, path, asked, device);
    if (!range) return range.error();
    ranges.emplace(device, range.value());
    events += range.value().to - range.value().from;
  }
  if (asked.kind != AskedPart::Kind::peak && events > kMostExcerptEvents)
    return outside(path,
                   "this part has " + std::to_string(events) + " events; a part may have at most " +
                       std::to_string(kMostExcerptEvents),
                   "ask for fewer steps, or for fewer events");
  return ranges;
}

Result<std::shared_ptr<const Recording>> recording_of(const Store& store,
                                                      std::vector<RunPart> parts,
                                                      const std::string& path) {
  PartSource source(store, std::move(parts));
  return Recording::from_excerpt(source, path, [&] { return source.known(); });
}

bool is_long_recording(const std::string& path) { return window_sizes(path).has_value(); }

std::uint64_t memory_of_whole(const std::string& path) {
  // Measured: 78 bytes an event in memory, about two in the file.
  constexpr std::uint64_t kMemoryPerFileByte = 37;
  std::error_code failed;
  const std::uintmax_t bytes = std::filesystem::file_size(path, failed);
  return failed ? 0 : bytes * kMemoryPerFileByte;
}

Result<std::shared_ptr<const Recording>> open_excerpt(const std::string& path,
                                                      const AskedPart& asked,
                                                      const OpenOptions& options) {
  std::uint64_t passes = 0;
  const auto deliver = [&](EventSink& sink) -> Status {
    OpenOptions pass = options;
    if (options.progress) {
      pass.progress = [&](std::uint64_t done, std::uint64_t total) {
        options.progress(passes * total + done, 2 * total);
      };
    }
    const Result<std::unique_ptr<EventSource>> source = open_source(path, pass);
    if (!source) return source.error();
    Status delivered = source.value()->deliver(sink);
    ++passes;
    return delivered;
  };
  WindowedRun run(path, deliver, window_sizes(path).value_or(WindowSizes()));
  const Result<bool> surveyed = run.survey();
  if (!surveyed) return surveyed.error();
  if (!surveyed.value()) return std::shared_ptr<const Recording>();
  const auto ranges = find_part(run, path, asked);
  if (!ranges) return ranges.error();
  Result<std::vector<RunPart>> parts = run.take_parts(ranges.value());
  if (!parts) return parts.error();
  return recording_of(run.store(), std::move(parts).value(), path);
}

}  // namespace gpumemprof
