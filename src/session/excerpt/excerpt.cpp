#include "session/excerpt/excerpt.h"

#include <algorithm>

#include "report/text/text_format.h"
#include "session/excerpt/indexed_part.h"
#include "session/excerpt/long_file.h"
#include "session/excerpt/made_index.h"
#include "session/excerpt/part_source.h"
#include "session/excerpt/passes.h"

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

// A device of the run.
class PartFinder {
 public:
  PartFinder(const RunOutline& run, const std::string& path, DeviceIndex index)
      : run_(run), path_(path), index_(index), device_(run.device(index)) {}

  [[nodiscard]] Result<ExcerptRange> find(const AskedPart& asked) const {
    switch (asked.kind) {
      case AskedPart::Kind::peak:
        return around_peak();
      case AskedPart::Kind::events:
        if (asked.first < asked.last && asked.last <= device_.events)
          return range_of(asked.first, asked.last);
        return outside(path_,
                       "the events " + std::to_string(asked.first) + ":" +
                           std::to_string(asked.last) + " are not in the run: " + device_.name +
                           " has " + text::counted(device_.events, "event"),
                       "ask for events between 0 and " + std::to_string(device_.events));
      case AskedPart::Kind::steps:
        break;
    }
    const std::uint32_t steps = device_.last_step;
    const std::optional<StepEvents> events = events_of_steps(asked.first, asked.last);
    if (!events || asked.first > asked.last || asked.last > steps)
      return outside(path_,
                     "the steps " + std::to_string(asked.first) + ":" + std::to_string(asked.last) +
                         " are not in the run: " + device_.name + " has " +
                         text::counted(steps, "step"),
                     steps == 0   ? "ask for events instead"
                     : steps == 1 ? "ask for --steps 1:1"
                                  : "ask for steps between 1 and " + std::to_string(steps));
    return range_of(events->first, events->end);
  }

 private:
  // The events of steps [first, last]; none: there are no such steps.
  [[nodiscard]] std::optional<StepEvents> events_of_steps(std::uint32_t first,
                                                          std::uint32_t last) const {
    const StepEvents events{
        run_.begin_of_step(index_, first),
        last == kNoEvent ? device_.events : run_.begin_of_step(index_, last + 1)};
    if (events.first >= events.end) return std::nullopt;
    return events;
  }

  [[nodiscard]] ExcerptRange range_of(std::uint32_t from, std::uint32_t to) const {
    ExcerptRange range;
    range.from = from;
    range.to = to;
    range.run_events = device_.events;
    range.last_step = run_.step_at(index_, to - 1);
    range.first_step = std::min(std::max(run_.step_at(index_, from), 1U), range.last_step);
    range.run_start_ns = device_.first_time_ns;
    return range;
  }

  [[nodiscard]] ExcerptRange around_peak() const {
    const std::uint32_t peak = device_.peak_event == kNoEvent ? 0 : device_.peak_event;
    StepEvents events{peak - std::min(peak, kEventsAround),
                      peak + std::min(device_.events - peak, kEventsAround)};
    if (device_.last_step > 0) {
      const std::uint32_t step = run_.step_at(index_, peak);
      const std::uint32_t first = step > kStepsBefore ? step - kStepsBefore : std::min(step, 1U);
      events = events_of_steps(first, step + kStepsAfter).value_or(events);
    }
    // Steps without end: as much as may be held, the peak in it.
    const std::uint32_t half = kMostExcerptEvents / 2;
    events.first = std::max(events.first, peak - std::min(peak, half));
    events.end = std::min(events.end, peak + std::min(device_.events - peak, half));
    ExcerptRange range = range_of(events.first, events.end);
    range.is_around_peak = true;
    return range;
  }

  const RunOutline& run_;
  const std::string& path_;
  DeviceIndex index_;
  DeviceOutline device_;
};

DeviceIndex highest_peak(const RunOutline& run) {
  const std::vector<DeviceIndex> devices = run.devices();
  return *std::ranges::max_element(
      devices, {}, [&](DeviceIndex device) { return run.device(device).peak_bytes; });
}

}  // namespace

Result<std::map<DeviceIndex, ExcerptRange>> find_part(const RunOutline& run,
                                                      const std::string& path,
                                                      const AskedPart& asked) {
  std::map<DeviceIndex, ExcerptRange> ranges;
  std::vector<DeviceIndex> devices;
  std::string known;
  for (const DeviceIndex device : run.devices()) {
    const DeviceOutline outline = run.device(device);
    known += (known.empty() ? "" : ", ") + outline.name;
    if (outline.events == 0 || (asked.device && *asked.device != device)) continue;
    devices.push_back(device);
  }
  if (devices.empty() && asked.device) return no_such_device(path, *asked.device, known);
  if (devices.empty())
    return outside(path, "the recording has no events", "record a run that allocates memory");
  // Event numbers are of one device.
  if (asked.kind == AskedPart::Kind::events) devices = {asked.device.value_or(highest_peak(run))};
  std::uint64_t events = 0;
  for (const DeviceIndex device : devices) {
    const Result<ExcerptRange> range = PartFinder(run, path, device).find(asked);
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
  return recording_bytes(path) * kMemoryPerFileByte;
}

namespace {

// By two passes.
Result<std::shared_ptr<const Recording>> read_excerpt(const std::string& path,
                                                      const AskedPart& asked,
                                                      const OpenOptions& options) {
  RunPasses passes(path, options);
  WindowedRun run(
      path, [&](EventSink& sink) { return passes.deliver(sink); },
      window_sizes(path).value_or(WindowSizes()));
  const Result<bool> surveyed = run.survey();
  if (!surveyed) return surveyed.error();
  if (!surveyed.value()) return std::shared_ptr<const Recording>();
  const auto ranges = find_part(SurveyedOutline(run), path, asked);
  if (!ranges) return ranges.error();
  Result<std::vector<RunPart>> parts = run.take_parts(ranges.value());
  if (!parts) return parts.error();
  return recording_of(run.store(), std::move(parts).value(), path);
}

}  // namespace

Result<std::shared_ptr<const Recording>> open_excerpt(const std::string& path,
                                                      const AskedPart& asked,
                                                      const OpenOptions& options) {
  if (!is_long_recording(path) || forced_window()) return read_excerpt(path, asked, options);
  IndexState state = IndexState::missing;
  std::unique_ptr<RunIndex> index = RunIndex::open(path, state);
  if (index == nullptr && make_index(path, options)) index = RunIndex::open(path, state);
  if (index == nullptr) return read_excerpt(path, asked, options);
  const IndexOutline outline(*index);
  const auto ranges = find_part(outline, path, asked);
  // What an index cannot say, the recording can.
  if (outline.is_damaged()) return read_excerpt(path, asked, options);
  if (!ranges) return ranges.error();
  Result<std::shared_ptr<const Recording>> opened = open_parts(*index, path, ranges.value());
  if (!opened && opened.error().code == ErrorCode::bad_input)
    return read_excerpt(path, asked, options);
  return opened;
}

Result<std::shared_ptr<const Recording>> open_peak(const std::string& indexed,
                                                   const std::string& path, DeviceIndex device,
                                                   std::uint32_t most_events) {
  IndexState state = IndexState::missing;
  const std::unique_ptr<RunIndex> index = RunIndex::open(indexed, state);
  const Error gone{ErrorCode::bad_input, "its index cannot be read any more", path,
                   "open the recording again"};
  if (index == nullptr) return gone;
  const IndexOutline outline(*index);
  const auto ranges = find_part(outline, path, {AskedPart::Kind::peak, 0, 0, device});
  if (outline.is_damaged()) return gone;
  if (!ranges) return ranges.error();
  const ExcerptRange& range = ranges.value().begin()->second;
  if (range.to - range.from > most_events)
    return outside(path,
                   "the steps around the peak have " + std::to_string(range.to - range.from) +
                       " events, too many for the page",
                   "run gpumemprof advise or gpumemprof simulate on it");
  return open_parts(*index, path, ranges.value());
}

}  // namespace gpumemprof
