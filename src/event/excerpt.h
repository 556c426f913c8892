// ExcerptRange: which part of a longer run a recording holds.
//
// An excerpt begins with a lead-in: events that bring the allocator to the state it had when the
// part begins. They are the births of what was live then. After them come the events of the part.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "event/event.h"

namespace gpumemprof {

struct ExcerptRange {
  std::uint32_t from = 0;  // events [from, to) of the run
  std::uint32_t to = 0;
  std::uint32_t run_events = 0;
  std::uint32_t first_step = 0;  // 0: none
  std::uint32_t last_step = 0;
  std::uint32_t lead_in = 0;                 // events before them
  bool is_around_peak = false;               // chosen because the run's peak is in it
  std::int64_t run_start_ns = kUnknownTime;  // time of the run's first event
  // The last segment before it was mapped, not allocated; none: there was none.
  std::optional<bool> is_expandable;

  // Events of the lead-in are numbered as the last event before the part.
  [[nodiscard]] std::uint32_t number_of(std::uint32_t event) const {
    if (event == kNoEvent) return kNoEvent;
    if (event < lead_in) return from == 0 ? kNoEvent : from - 1;
    return from + (event - lead_in);
  }
  // Of an event of the part.
  [[nodiscard]] std::uint32_t row_of(std::uint32_t number) const {
    return lead_in + (number - from);
  }
  bool operator==(const ExcerptRange&) const = default;
};

// As a fact of a recording.
inline constexpr std::string_view kExcerptFact = "excerpt";
std::string excerpt_text(const ExcerptRange& range);
std::optional<ExcerptRange> parse_excerpt(std::string_view text);

}  // namespace gpumemprof
