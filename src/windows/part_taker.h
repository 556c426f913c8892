// PartTaker: copies a part of a device's history while the summary of the whole run passes over it,
// with the sources that the whole run shows.
#pragma once

#include <optional>
#include <vector>

#include "analysis/sources/sources.h"
#include "event/excerpt.h"
#include "windows/device_pass.h"
#include "windows/window_taker.h"

namespace gpumemprof {

// What an allocation is for, as the whole run shows it.
struct KnownLabel {
  MemorySource source = MemorySource::unknown;
  std::uint8_t flags = 0;  // as in AllocationLabels
  StringId name;
};

// An allocation that is live where a part begins.
struct OlderAllocation {
  std::uint32_t birth = 0;  // event of the run
  Event event;              // that allocated it
  std::uint64_t block_bytes = 0;
  std::optional<Event> free_event;  // it was freed, but a stream still uses it
  KnownLabel label;
};

// Events [range.from, range.to) of a device. Ids are those of the run's store, positions are
// numbers of the run.
struct RunPart {
  DeviceIndex device = 0;
  ExcerptRange range;
  std::int64_t first_time_ns = kUnknownTime;  // of the run
  ListedState start;                          // segments, and the blocks older than the run
  std::vector<KnownLabel> start_labels;       // one for each of those blocks
  std::vector<OlderAllocation> older;         // in order of birth
  EventColumns events;
  std::vector<std::pair<std::uint32_t, KnownLabel>> born;  // in them: event and label
  std::vector<Labelling> labellings;
  std::vector<std::vector<Label>> label_sets;  // one for each labelling
  std::vector<PhaseMark> phase_marks;
  std::vector<LostEvents> lost_events;
  std::vector<PhaseSpan> spans;
  std::vector<DeviceSample> samples;
  std::vector<Annotation> annotations;  // none: those of the store
};

class PartTaker final : public WindowTaker {
 public:
  PartTaker(const Store& store, DeviceIndex device, ExcerptRange range);

  // A window of the run, labelled.
  void take(const KeptRun& run, const LocalView& view, const Window& window,
            const std::vector<PhaseSpan>& spans) override;
  [[nodiscard]] RunPart& part() { return part_; }

 private:
  void take_start(const KeptRun& run, const LocalView& view);
  void take_said(const KeptRun& run, const LocalView& view, const Window& window);
  [[nodiscard]] KnownLabel label_of(const DeviceRecord& record, std::size_t row) const;

  const Store& store_;
  RunPart part_;
};

}  // namespace gpumemprof
