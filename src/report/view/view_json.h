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
#include "analysis/range/range_changes.h"
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
  std::uint64_t index_events = 0;   // then: the finest interval of its index
  std::uint64_t listed_events = 0;  // the longest range that can be listed
};
struct FileMeta {
  std::string path;
  const Store* store = nullptr;
  Completeness completeness;
  std::vector<DeviceMeta> devices;
};
std::string meta_json(const std::vector<FileMeta>& files, std::string_view version);

// The report twice, as data and as text, and its first sentences as JSON.
std::string report_json(std::string_view overview_json, std::string_view overview_text,
                        std::string_view verdicts);

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
// Instead of an answer that takes a while. `so_far`: JSON; empty: nothing yet.
std::string working_json(std::string_view what, std::uint64_t done, std::uint64_t total,
                         std::string_view so_far);
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

// A device's allocations as reported to the page. If it is a part of a run, positions are shown as
// those of the run, and a row as the position at which it was allocated: so it has the same number
// in every part. What is older than the run has its address behind kOlderRow; browsers' numbers are
// exact up to 2^53.
inline constexpr std::uint64_t kOlderRow = std::uint64_t{1} << 52U;
struct ShownNumbers {
  ExcerptRange range;
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
  // It is live where the part ends: what becomes of it does not show here.
  [[nodiscard]] bool goes_on(std::size_t row) const;
};
std::string allocations_json(const AllocationSource& source, const AllocationPage& page);
// What became of an allocation after the part of the run in which it was made.
struct AllocationEnd {
  std::optional<Position> death;  // none: it is never freed
  std::optional<Position> reusable;
  std::int64_t death_ns = kUnknownTime;  // since the first event
  std::int64_t lifetime = 0;             // as lifetime_of
};
// `end`: if that is not in the source.
std::string allocation_json(const AllocationSource& source, AllocationId row,
                            const AllocationEnd* end = nullptr);
std::string segments_json(const AllocationSource& source, const Grouping& grouping,
                          const PoolState& map, Position position);
std::string compare_json(const Store& first, const Store& second, const Comparison& comparison,
                         GroupBy by, std::size_t most_groups);

// Allocations that are drawn as bands of their own, in order of birth.
struct Singles {
  struct Row {
    std::uint64_t row = 0;
    std::uint64_t size_bytes = 0;
    std::uint64_t requested_bytes = 0;
    Position birth = 0;
    std::optional<Position> death;
    std::uint8_t group = 0;
    std::uint64_t stream_handle = 0;
  };
  std::vector<Row> rows;
  std::optional<std::uint64_t> matches;
  std::uint32_t spacing = 0;  // see answer_shapes.cpp
};
std::string singles_json(const Singles& singles);

struct RangeFacts {
  Position from = 0;
  Position to = 0;
  std::uint64_t from_bytes = 0;
  std::uint64_t to_bytes = 0;
  Position peak_position = 0;
  std::uint64_t peak_bytes = 0;
};
std::string range_json(const Store& store, const RangeFacts& facts, const RangeChanges& changes);
// What is known of a range before all of it was read: its ends, and what survived it.
std::string range_so_far_json(const Store& store, const RangeFacts& facts,
                              const RangeChanges& survivors);

// The same run under other settings of the allocator.
struct SimulatedSettings {
  struct Run {
    std::string alloc_conf;
    std::uint64_t peak_reserved_bytes = 0;
    std::uint64_t ooms = 0;
    bool is_recorded = false;
  };
  std::vector<Run> runs;
  bool is_exact = false;
  std::string why_not;               // empty: it was simulated
  std::optional<ExcerptRange> part;  // of a longer run
};
std::string settings_json(const SimulatedSettings& settings);

// Of many allocations at once: each distinct stack as a list of frames.
std::string stacks_json(const Store& store, std::span<const StackId> stacks);

}  // namespace gpumemprof::view
