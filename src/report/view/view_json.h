// What the viewer's page reads: compact JSON, one answer for each question the page can ask, in the
// shapes of answer_shapes.h.
//
// Sizes are bytes, times nanoseconds since the first event, moments positions (0: before the first
// event, p: after event p - 1); unknown values are null. Addresses are text, as browsers' numbers
// are exact only up to 2^53. Columns of a tile and of a page of allocations are lists of equal
// length; a tile's are differences from one bucket to the next, which are mostly 0.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "analysis/compare/compare.h"
#include "analysis/completeness/completeness.h"
#include "analysis/moment/flame.h"
#include "analysis/moment/pool_state.h"
#include "analysis/table/allocation_query.h"
#include "analysis/timeline/overlays.h"
#include "analysis/timeline/spans.h"
#include "analysis/timeline/timeline.h"
#include "store/store.h"

namespace gpumemprof::view {

// What the page must know about a device before it can ask for anything.
struct DeviceMeta {
  DeviceIndex device = 0;
  std::uint64_t events = 0;
  std::uint64_t allocations = 0;
  std::int64_t duration_ns = kUnknownTime;
  std::uint32_t deepest_level = 0;
  const DeviceReplay* replay = nullptr;
  std::vector<GroupBy> group_bys;
  std::vector<FlameBy> flame_bys;
  bool has_sources = false;
  // Too long for memory: moments are read from the file when they are asked for, and only what is
  // live at a moment, or in a short range, can be listed.
  bool is_long = false;
};
struct FileMeta {
  std::string path;
  const Store* store = nullptr;
  Completeness completeness;
  std::vector<DeviceMeta> devices;
};
std::string meta_json(const std::vector<FileMeta>& files, std::string_view version);

// The report twice: as data and as text.
std::string report_json(std::string_view overview_json, std::string_view overview_text);

std::string groups_json(const Store& store, const Grouping& grouping);
std::string tile_json(const Tile& tile);
struct SpanCounts {
  std::uint32_t lanes = 0;
  std::uint64_t spans = 0;
  std::uint64_t too_deep = 0;
};
// Times are counted from `run_start_ns`.
std::string overlays_json(const Store& store, std::int64_t run_start_ns,
                          const TimelineOverlays& overlays, const SpanCounts& spans);
std::string spans_json(std::int64_t run_start_ns, const SpanTile& tile);
// What each group holds at a given moment.
std::string group_bytes_json(std::span<const std::uint64_t> group_bytes);
std::string flame_json(const Store& store, const Flame& flame, Position position);
std::string error_json(std::string_view message);
// What a standalone file says about itself.
std::string embedded_json(std::uint32_t deepest_level, const std::vector<std::string>& left_out);

// Where a moment is on the axes, and what the device held then.
struct MomentFacts {
  Position position = 0;
  std::int64_t since_first_ns = kUnknownTime;
  std::uint64_t allocated_bytes = 0;
  std::uint64_t reserved_bytes = kUnknownBytes;
};
std::string moment_json(const MomentFacts& facts);
// Many of them, in order, one for each bucket of a level of the axis of events.
std::string known_json(std::uint32_t level, std::span<const MomentFacts> moments);

// A device's allocations as reported to the page.
// If it is a part of a run, rows and positions are shown as those of the run.
struct ShownNumbers {
  ExcerptRange range;
  std::uint64_t first_row = 0;
  // Event of the lead-in → event of the run (kNoEvent: older than the run), in order.
  std::vector<std::pair<std::uint32_t, std::uint32_t>> births;
};
struct AllocationSource {
  const Store& store;
  const DeviceRecord& record;
  const EventTimes& times;
  const ShownNumbers* numbers = nullptr;

  [[nodiscard]] std::uint64_t shown_row(std::size_t row) const;
  [[nodiscard]] Position shown_birth(std::size_t row) const;
  // None: it is never freed, or after the part.
  [[nodiscard]] std::optional<Position> shown_death(std::uint32_t event) const;
  // It is live where the part ends: what becomes of it does not show.
  [[nodiscard]] bool goes_on(std::size_t row) const;
};
std::string allocations_json(const AllocationSource& source, const AllocationPage& page);
std::string allocation_json(const AllocationSource& source, AllocationId row);
std::string segments_json(const AllocationSource& source, const Grouping& grouping,
                          const PoolState& map, Position position);
std::string compare_json(const Store& first, const Store& second, const Comparison& comparison,
                         std::size_t most_groups);

// Of many allocations at once: each distinct stack as a list of frames.
std::string stacks_json(const Store& store, std::span<const StackId> stacks);

}  // namespace gpumemprof::view
