// Spans: the steps, phases, evaluations and annotations of a device, in lanes above its timeline,
// and which of them are drawn in a tile of the timeline.
//
// Spans are served by tile, like memory. In a tile, consecutive spans of a lane that are narrower
// than a bucket are merged into one that says how many it stands for; at the deepest level every
// span that has an event appears by itself.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "analysis/sources/sources.h"
#include "analysis/timeline/timeline.h"
#include "store/store.h"

namespace gpumemprof {

enum class SpanKind : std::uint8_t { step, phase, evaluation, annotation };

struct DrawnSpan {
  std::string name;       // of the first, if merged
  std::string last_name;  // of the last, if merged
  Position from = 0;
  Position to = 0;
  std::int64_t from_ns = kUnknownTime;
  std::int64_t to_ns = kUnknownTime;
  std::uint32_t lane = 0;
  SpanKind kind = SpanKind::annotation;
  std::uint64_t count = 1;
};

struct SpanTile {
  std::vector<DrawnSpan> spans;  // by lane, in order of time
  std::uint64_t left_out = 0;    // for a recording in which very many spans overlap
};

// What the phases of a run are placed on.
struct SpanGround {
  TimelineScale scale;
  // When an event happened; only asked if there are times.
  std::function<std::int64_t(std::uint32_t event)> time_of;
  // Live memory in detail, which shows evaluations that nothing else does; null: it is not known.
  const LiveChanges* live = nullptr;

  [[nodiscard]] std::uint32_t events() const {
    return static_cast<std::uint32_t>(scale.positions - 1);
  }
};

class Spans {
 public:
  static constexpr std::uint32_t kMostLanes = 6;
  static constexpr std::size_t kMostInTile = 8192;

  // The store must outlive it.
  Spans(const Store& store, const DeviceRecord& record, const std::vector<PhaseSpan>& phases,
        const Timeline& timeline);
  // Of a run that is too long for memory: steps and phases.
  Spans(const Store& store, const std::vector<PhaseSpan>& phases, const SpanGround& ground);

  [[nodiscard]] std::uint32_t lane_count() const {
    return static_cast<std::uint32_t>(lanes_.size());
  }
  [[nodiscard]] std::uint64_t span_count() const;
  // Nested deeper than there are lanes: not drawn.
  [[nodiscard]] std::uint64_t too_deep() const { return too_deep_; }
  // An Error if there is no such tile.
  [[nodiscard]] Result<SpanTile> tile(const TileAddress& address) const;
  // The same between two points of an axis: positions, or times.
  [[nodiscard]] SpanTile tile_between(Axis axis, long double from, long double to) const;

 private:
  struct Row {
    Position from = 0;
    Position to = 0;
    std::int64_t from_ns = kUnknownTime;
    std::int64_t to_ns = kUnknownTime;
    SpanKind kind = SpanKind::annotation;
    std::uint32_t name = 0;  // number of the step, Phase, or StringId, by kind
  };
  // Sorted by start. `latest_end` of a row is the maximum over all rows up to and including it.
  struct Lane {
    std::vector<Row> rows;
    std::vector<std::int64_t> latest_end_event;
    std::vector<std::int64_t> latest_end_ns;
  };
  class PhaseReader;
  class AnnotationReader;
  class TileWriter;

  void add(std::uint32_t lane, const Row& row);
  void sort_lanes();
  [[nodiscard]] std::string name_of(const Row& row) const;

  const Store& store_;
  TimelineScale scale_;
  std::vector<Lane> lanes_;
  std::uint64_t too_deep_ = 0;
};

}  // namespace gpumemprof
