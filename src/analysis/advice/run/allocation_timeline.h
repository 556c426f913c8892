// AllocationTimeline: the allocations of one device as lifetimes that a remedy may rewrite: sizes
// and moments change, rows are added and dropped. The rewritten timeline becomes requests for the
// simulator.
//
// Moments are keys: an event of the recording and a place before or after it, so that any number of
// new moments fits between two events. Bytes are requested bytes. A row of size 0 is ignored.
#pragma once

#include <cstdint>
#include <limits>
#include <vector>

#include "event/allocator_settings.h"
#include "event/event.h"
#include "event/memory_source.h"
#include "sim/requests.h"
#include "sim/simulate.h"

namespace gpumemprof {

using TimelineKey = std::uint64_t;
inline constexpr TimelineKey kTimelineStart = 0;
inline constexpr TimelineKey kTimelineEnd = std::numeric_limits<TimelineKey>::max();

inline constexpr unsigned kTimelineEventShift = 24;
inline constexpr TimelineKey kTimelineAtEvent = TimelineKey{1} << (kTimelineEventShift - 1);
inline constexpr std::uint64_t kTimelineMaxOrder = kTimelineAtEvent - 2;

constexpr TimelineKey at_event(std::uint32_t event) {
  return ((TimelineKey{event} + 1) << kTimelineEventShift) | kTimelineAtEvent;
}
// New moments just before and just after an event, in the order of their number.
constexpr TimelineKey before_event(std::uint32_t event, std::uint64_t order) {
  return ((TimelineKey{event} + 1) << kTimelineEventShift) |
         (order < kTimelineMaxOrder ? order : kTimelineMaxOrder);
}
constexpr TimelineKey after_event(std::uint32_t event, std::uint64_t order) {
  return at_event(event) + 1 + (order < kTimelineMaxOrder ? order : kTimelineMaxOrder);
}
// The event a moment belongs to; kNoEvent before the first.
constexpr std::uint32_t event_of(TimelineKey key) {
  const TimelineKey event = key >> kTimelineEventShift;
  return event == 0 ? kNoEvent : static_cast<std::uint32_t>(event - 1);
}

struct TimelineRow {
  static constexpr std::uint32_t kInserted = 0xffffffffU;

  TimelineKey birth = kTimelineStart;
  TimelineKey death = kTimelineEnd;     // its owner frees it
  TimelineKey reusable = kTimelineEnd;  // and no stream uses it any more
  std::uint64_t size_bytes = 0;
  std::uint32_t stream_pool = 0;
  std::uint32_t origin = kInserted;  // row of the recording's allocations
  MemorySource source = MemorySource::unknown;

  [[nodiscard]] bool is_there() const { return size_bytes > 0; }
  void die_at(TimelineKey key) { death = reusable = key; }
};

// What the program asked of the allocator other than memory: empty_cache and the like.
struct TimelineCommand {
  TimelineKey key = kTimelineStart;
  sim::RequestKind kind = sim::RequestKind::empty_cache;
  std::uint32_t operand = 0;  // pool; for a failed request its row in failed_bytes
};

// The moment of most allocated bytes, counting rounding only: what unsplit blocks hold beyond that
// is left to the simulator.
struct TimelinePeak {
  std::uint64_t bytes = 0;
  TimelineKey key = kTimelineStart;
};

struct AllocationTimeline {
  std::vector<TimelineRow> rows;
  std::vector<TimelineCommand> commands;
  std::vector<sim::StreamPoolKey> stream_pools;
  std::vector<sim::PoolKind> pools;

  TimelineRow& insert(TimelineKey birth, TimelineKey death, std::uint64_t size_bytes,
                      MemorySource source);
  [[nodiscard]] sim::RequestColumns requests() const;
  // Requested bytes over the run.
  [[nodiscard]] sim::AllocatedCurve requested_curve(std::uint32_t events_per_point) const;
  // Without settings nothing is rounded: memory not served by a caching allocator.
  [[nodiscard]] TimelinePeak peak(const AllocatorSettings* settings) const;
};

}  // namespace gpumemprof
