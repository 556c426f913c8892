// What replay derives from a device's events: every allocation and every piece of reserved memory,
// with its lifetime.
//
// A lifetime is a pair of event rows: the object exists after `birth` and no longer after `death`.
// kNoEvent as a birth means "before the history began", as a death "still live at the end".
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "event/event.h"
#include "event/memory_source.h"

namespace gpumemprof {

// A moment of a history: after some event, before all of them, or after all of them.
class Moment {
 public:
  static constexpr Moment start() { return Moment(kNoEvent); }
  static constexpr Moment end() { return Moment(kNoEvent - 1); }
  static constexpr Moment after(std::uint32_t event) { return Moment(event); }

  // Whether something with this lifetime exists at this moment.
  [[nodiscard]] constexpr bool is_within(std::uint32_t birth, std::uint32_t death) const {
    if (event_ == kNoEvent) return birth == kNoEvent;
    return (birth == kNoEvent || birth <= event_) && death > event_;
  }
  constexpr bool operator==(const Moment&) const = default;

 private:
  constexpr explicit Moment(std::uint32_t event) : event_(event) {}
  std::uint32_t event_;
};

struct AllocationColumns {
  Column<std::uint64_t> address;
  Column<std::uint64_t> size_bytes;       // of the block: what it takes from the pool
  Column<std::uint64_t> requested_bytes;  // what was asked for
  Column<std::uint32_t> alloc_event;
  Column<std::uint32_t> free_requested_event;
  Column<std::uint32_t> free_completed_event;
  Column<std::uint32_t> stream;
  Column<StackId> stack;
  Column<SegmentId> segment;  // the reserved piece that contains it (or its start)
  // Freed before the first event but still in use by a stream then: their free_requested_event is
  // 0. Few if any.
  Column<AllocationId> pending_at_start;

  [[nodiscard]] std::size_t size() const { return address.size(); }
  // Allocated and not yet freed.
  [[nodiscard]] bool is_allocated_at(std::size_t row, Moment moment) const {
    return moment.is_within(alloc_event[row], free_requested_event[row]) &&
           !(moment == Moment::start() && was_pending_at_start(row));
  }
  // Not reusable: allocated, or freed but still in use by a stream.
  [[nodiscard]] bool is_active_at(std::size_t row, Moment moment) const {
    return moment.is_within(alloc_event[row], free_completed_event[row]);
  }
  [[nodiscard]] bool was_pending_at_start(std::size_t row) const;
  void clear();
  void shrink_to_fit();
};

// What the program was doing. other: setting up, loading data, … evaluation: a forward between
// training steps whose results no backward uses; it belongs to the step before it.
enum class Phase : std::uint8_t { other, forward, backward, optimizer_step, evaluation };
inline constexpr std::size_t kPhaseCount = 5;

constexpr std::string_view phase_name(Phase phase) {
  constexpr std::array<std::string_view, kPhaseCount> kNames = {"other", "forward", "backward",
                                                                "optimizer_step", "evaluation"};
  return kNames[static_cast<std::size_t>(phase)];
}

// Consecutive events of one phase, up to the next span's first event. Spans cover all events.
struct PhaseSpan {
  std::uint32_t first_event = 0;
  Phase phase = Phase::other;
  std::uint32_t step = 0;  // training step, from 1; 0: before the first
};

// The span that the event is in; null before the first.
const PhaseSpan* span_at(std::span<const PhaseSpan> spans, std::uint32_t event);
// Its step; 0 for kNoEvent, too.
std::uint32_t step_at(std::span<const PhaseSpan> spans, std::uint32_t event);

// What each allocation is for: one row for each row of the device's allocations. Empty until
// analysis/sources fills it.
struct AllocationLabels {
  static constexpr std::uint8_t kMeasured = 1;  // a label in the recording says so
  static constexpr std::uint8_t kBuffer = 2;    // for parameters: a module's buffer
  static constexpr std::uint8_t kGrown = 4;     // kept from step to step, in growing amounts
  Column<MemorySource> source;
  Column<std::uint8_t> flags;
  // "h.3.mlp.c_fc.weight", followed by ".grad" or " exp_avg"; empty column: no row has a name.
  Column<StringId> name;
  bool has_recorded = false;  // the recording itself has labels

  [[nodiscard]] bool is_measured(std::size_t row) const { return (flags[row] & kMeasured) != 0; }
  // What a step needs it for: nothing that is known, if it only accumulates.
  [[nodiscard]] MemorySource source_in_step(std::size_t row) const {
    return (flags[row] & kGrown) != 0 ? MemorySource::unknown : source[row];
  }
};

// Plain segments, and mapped pieces of expandable ones.
struct SegmentColumns {
  Column<std::uint64_t> address;
  Column<std::uint64_t> size_bytes;
  Column<std::uint32_t> birth_event;
  Column<std::uint32_t> death_event;
  Column<std::uint32_t> stream;
  Column<std::uint32_t> pool;  // kNoPool if it is not known
  Column<std::uint8_t> is_expandable;
  Column<std::uint8_t> is_small;
  Column<StackId> stack;

  [[nodiscard]] std::size_t size() const { return address.size(); }
  [[nodiscard]] bool is_reserved_at(std::size_t row, Moment moment) const {
    return moment.is_within(birth_event[row], death_event[row]);
  }
  void clear();
};

}  // namespace gpumemprof
