// TimelineOverlays: what is drawn on a device's timeline in addition to its memory and its spans:
// out-of-memory errors, the card and the limit on the process.
#pragma once

#include <optional>
#include <vector>

#include "analysis/timeline/timeline.h"
#include "replay/replay.h"
#include "store/store.h"

namespace gpumemprof {

struct OverlayOom {
  Position position = 0;
  std::int64_t time_ns = kUnknownTime;
  std::uint64_t wanted_bytes = 0;
  std::uint64_t allocated_bytes = 0;
  std::uint64_t reserved_bytes = 0;
  StackId stack;  // of the allocation that failed
};

struct TimelineOverlays {
  std::vector<OverlayOom> ooms;  // the first ones
  std::uint64_t ooms_left_out = 0;
  std::optional<std::uint64_t> card_bytes;   // all the memory the card has
  std::optional<std::uint64_t> limit_bytes;  // what the process may reserve
  bool is_limit_inferred = false;            // from failures, not stated
};

struct TimelineOverlaysOptions {
  std::size_t most_ooms = 200;
};

// A failure of an allocation; its position is that of the record.
OverlayOom oom_at_event(const DeviceRecord& record, const Timeline& timeline, std::uint32_t event);
// What the process may reserve, if the recording says so.
std::optional<std::uint64_t> stated_limit(const DeviceFacts& facts,
                                          std::optional<std::uint64_t> card_bytes);

TimelineOverlays find_overlays(const Store& store, const DeviceRecord& record,
                               const DeviceReplay& replay, const Timeline& timeline,
                               const TimelineOverlaysOptions& options = {});

}  // namespace gpumemprof
