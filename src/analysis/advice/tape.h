// Tape: the allocations of one device as lifetimes that a remedy may rewrite: sizes and moments
// change, rows are added and dropped. The rewritten tape becomes requests for the simulator.
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

namespace gpumemprof {

using TapeKey = std::uint64_t;
inline constexpr TapeKey kTapeStart = 0;
inline constexpr TapeKey kTapeEnd = std::numeric_limits<TapeKey>::max();

inline constexpr unsigned kTapeEventShift = 24;
inline constexpr TapeKey kTapeAtEvent = TapeKey{1} << (kTapeEventShift - 1);
inline constexpr std::uint64_t kTapeMaxOrder = kTapeAtEvent - 2;

constexpr TapeKey at_event(std::uint32_t event) {
  return ((TapeKey{event} + 1) << kTapeEventShift) | kTapeAtEvent;
}
// New moments just before and just after an event, in the order of their number.
constexpr TapeKey before_event(std::uint32_t event, std::uint64_t order) {
  return ((TapeKey{event} + 1) << kTapeEventShift) |
         (order < kTapeMaxOrder ? order : kTapeMaxOrder);
}
constexpr TapeKey after_event(std::uint32_t event, std::uint64_t order) {
  return at_event(event) + 1 + (order < kTapeMaxOrder ? order : kTapeMaxOrder);
}
// The event a moment belongs to; kNoEvent before the first.
constexpr std::uint32_t event_of(TapeKey key) {
  const TapeKey event = key >> kTapeEventShift;
  return event == 0 ? kNoEvent : static_cast<std::uint32_t>(event - 1);
}

struct TapeRow {
  static constexpr std::uint32_t kInserted = 0xffffffffU;

  TapeKey birth = kTapeStart;
  TapeKey death = kTapeEnd;     // its owner frees it
  TapeKey reusable = kTapeEnd;  // and no stream uses it any more
  std::uint64_t size_bytes = 0;
  std::uint32_t lane = 0;
  std::uint32_t origin = kInserted;  // row of the recording's allocations
  MemorySource source = MemorySource::unknown;

  [[nodiscard]] bool is_there() const { return size_bytes > 0; }
  void die_at(TapeKey key) { death = reusable = key; }
};

// What the program asked of the allocator other than memory: empty_cache and the like.
struct TapeCommand {
  TapeKey key = kTapeStart;
  sim::RequestKind kind = sim::RequestKind::empty_cache;
  std::uint32_t operand = 0;  // pool; for a failed request its row in failed_bytes
};

// The moment of most allocated bytes, counting rounding only: what unsplit blocks hold beyond that
// is left to the simulator.
struct TapePeak {
  std::uint64_t bytes = 0;
  TapeKey key = kTapeStart;
};

struct Tape {
  std::vector<TapeRow> rows;
  std::vector<TapeCommand> commands;
  std::vector<sim::StreamPoolKey> lanes;
  std::vector<sim::PoolKind> pools;

  TapeRow& insert(TapeKey birth, TapeKey death, std::uint64_t size_bytes, MemorySource source);
  [[nodiscard]] sim::RequestColumns requests() const;
  // Without settings nothing is rounded: memory not served by a caching allocator.
  [[nodiscard]] TapePeak peak(const AllocatorSettings* settings) const;
};

}  // namespace gpumemprof
