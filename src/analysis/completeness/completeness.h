// Completeness: how a recording ended, what is missing from it, and from when on its figures are no
// longer exact.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "store/store.h"

namespace gpumemprof {

// A period in which events were lost.
struct LostPeriod {
  std::string device;
  std::uint32_t from_event = 0;         // the first event kept after the first lost one
  std::uint32_t to_event = 0;           // the first event kept after the last lost one
  std::int64_t from_ns = kUnknownTime;  // since the device's first event
  std::int64_t to_ns = kUnknownTime;
  std::optional<std::uint64_t> events;  // unknown: recording was paused
  std::uint64_t allocations = 0;
  std::uint64_t frees = 0;
  // Chapters of a long recording were removed, not lost: figures after it are exact.
  bool is_summarised = false;
};

struct Completeness {
  bool is_recording = false;  // false: a snapshot, which does not say how it ended
  bool is_closed = false;
  // Of one that is not closed; nothing where nobody looked, or could not see it.
  std::optional<bool> is_being_written;
  std::string reason;   // why it ended
  std::string problem;  // why recording stopped early; empty: it did not
  // What the program did; unknown if the file was not closed, recording was paused, or the file has
  // a version that did not count.
  std::optional<EventCounts> made;
  std::optional<EventCounts> lost;
  EventCounts recorded;
  std::uint64_t least_lost = 0;  // known to be lost, even if `lost` is not known
  std::uint64_t inferred_frees = 0;
  bool was_paused = false;
  // A long recording: what is only summarised, because its chapters were removed.
  EventCounts summarised;
  std::vector<ChapterFigures> chapters;  // those and the others, in order; none: it is one file
  std::vector<LostPeriod> lost_periods;  // in order of time
  // Since the first event: what was lost, or no longer recorded, begins here.
  std::int64_t exact_until_ns = kUnknownTime;

  // If the recording is an excerpt of a longer run: what it holds, by device.
  struct Excerpt {
    std::string device;
    ExcerptRange range;
  };
  std::vector<Excerpt> excerpts;

  // Main memory as last seen, if the recording was not closed.
  std::optional<std::uint64_t> host_resident_bytes;
  std::optional<std::uint64_t> host_available_bytes;
  std::optional<std::uint64_t> host_total_bytes;

  // So little was left that the kernel may have ended the process. One that holds most of the
  // memory itself may have taken the rest since.
  [[nodiscard]] bool is_host_memory_low() const {
    constexpr std::uint64_t kParts = 20;
    constexpr std::uint64_t kPartsOfOne = 8;
    if (!host_available_bytes || !host_total_bytes) return false;
    const bool is_one = host_resident_bytes.value_or(0) >= *host_total_bytes / 2;
    return *host_available_bytes < *host_total_bytes / (is_one ? kPartsOfOne : kParts);
  }
  // Nothing is known to be missing.
  [[nodiscard]] bool is_whole() const {
    return !is_recording || (is_closed && problem.empty() && least_lost == 0 && !was_paused &&
                             summarised.total() == 0);
  }
};

// How much of a device's history a recording holds.
struct DeviceExtent {
  DeviceIndex device = 0;
  EventCounts rows;
  std::int64_t first_time_ns = kUnknownTime;
  std::int64_t last_time_ns = kUnknownTime;
  std::vector<LostEvents> lost_events;
};

Completeness find_completeness(const Store& store);
// The same if the store does not hold the events.
Completeness find_completeness(const Store& store, const std::vector<DeviceExtent>& devices);

}  // namespace gpumemprof
