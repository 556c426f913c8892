// Overview: the report's first page for every device of a recording: the peak, what was live then,
// why reserved memory was not used, and what went wrong.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "analysis/card_usage/card_usage.h"
#include "analysis/completeness/completeness.h"
#include "analysis/fragmentation/free_memory.h"
#include "analysis/fragmentation/pins.h"
#include "analysis/growth/growth.h"
#include "analysis/leaks/leaks.h"
#include "analysis/oom/oom.h"
#include "analysis/peak/live_set.h"
#include "analysis/sources/sources.h"
#include "analysis/tags/tags.h"
#include "replay/replay.h"
#include "store/store.h"

namespace gpumemprof {

// The moment the user asks about; the peak by default.
struct AskedMoment {
  enum class Kind : std::uint8_t { peak, end, event, step };
  Kind kind = Kind::peak;
  std::uint32_t event = 0;  // of a step: the one of its peak, once that is known
  std::uint32_t step = 0;
};

struct OverviewOptions {
  AskedMoment at;
  std::optional<DeviceIndex> device;
};

// When something happened, as far as the recording shows.
struct When {
  std::uint32_t event = kNoEvent;
  std::int64_t time_ns = kUnknownTime;
  std::int64_t since_start_ns = kUnknownTime;
  std::optional<std::uint64_t> step;  // counted from 1; 0: before the first
  std::optional<Phase> phase;         // none if none was recognized
  StringId annotation;                // the innermost one open then
};

struct DeviceOverview {
  DeviceIndex device = 0;
  std::string name;
  std::uint64_t events = 0;
  std::int64_t duration_ns = kUnknownTime;
  DeviceReplay replay;
  When peak_when;

  // The moment asked about: the peak, or the end where no history was recorded.
  AskedMoment asked;
  When asked_when;
  MemoryTotals totals;
  LiveSet live;
  std::vector<LiveLine> live_lines;
  FreeMemory memory;
  PinReport pins;
  TagReport tags;                       // at the moment asked about
  SourceBytes asked_sources;            // at the moment asked about
  DeviceSources sources;                // at the peak and over time
  Growth growth;                        // from step to step
  std::optional<DeviceLeaks> leaks;     // whether that is a leak; none: the run was read in parts
  std::optional<CardUsage> card_usage;  // at the last sample of the card

  std::vector<OomReport> ooms;  // the first few
  std::vector<When> oom_whens;  // one for each of them
};

struct Overview {
  std::string path;
  Completeness completeness;
  std::uint64_t events = 0;
  std::uint64_t allocations = 0;  // of all devices, like the frees
  std::uint64_t frees = 0;
  std::vector<DeviceOverview> devices;
};

// What is live at a moment, and why reserved memory is not: everything about it that only needs the
// allocations and segments of that moment. The record must have labels.
void look_at_moment(const Store& store, const DeviceRecord& record, Moment moment,
                    DeviceOverview& overview);
// Whether advice could name what a failed run would still have needed.
bool is_need_known(const Store& store, const DeviceRecord& record,
                   const std::vector<PhaseSpan>& phases, RunKind kind);
// The event at which the most was allocated in this step; an Error names the steps there are.
Result<std::uint32_t> peak_of_step(const std::string& path, const std::string& device,
                                   const std::vector<StepFigures>& steps, std::uint32_t step);
Error no_such_event(const std::string& path, const std::string& device, std::uint32_t event,
                    std::uint64_t events);

// `known`: the names of those that exist.
Error no_such_device(const std::string& path, DeviceIndex device, const std::string& known);
// Whether the recording has this device; none: all of them.
Status check_device(const Store& store, const std::string& path, std::optional<DeviceIndex> device);
// "cuda:0" names no device of a recording of CPU tensors. A number names one of any kind.
Status check_device_kind(const std::string& name, const Store& store, const std::string& path);

inline constexpr std::size_t kOomsShown = 3;

// `phases` are those of each device, as find_phases() returns them; the records must have labels.
// An Error if the options name a device or event that does not exist.
Result<Overview> make_overview(const Store& store, const std::vector<DeviceReplay>& replays,
                               const std::vector<std::vector<PhaseSpan>>& phases, std::string path,
                               const OverviewOptions& options);

}  // namespace gpumemprof
