// PyramidTimeline: the timeline of a run that is too long to be in memory, from its pyramid.
//
// Its tiles are those of a Timeline with one difference: the edges of their buckets are moved to
// the nearest edge of a bucket of the pyramid. So a bucket has the exact least, most and sources of
// the moments between its edges, and these are less than a bucket of the pyramid from where a
// Timeline has them. A tile with more buckets than the pyramid has there repeats some of them.
#pragma once

#include <vector>

#include "analysis/timeline/pyramid.h"
#include "analysis/timeline/timeline.h"

namespace gpumemprof {

// What is held before the first event: the pyramid has only what follows it.
struct RunStart {
  std::uint64_t allocated_bytes = 0;
  std::uint64_t reserved_bytes = 0;
  SourceBytes sources;  // of what is allocated then
};

class PyramidTimeline {
 public:
  // `last_ns`: of the last event. `has_pool`: reserved bytes mean anything.
  PyramidTimeline(Pyramid pyramid, const RunStart& start, std::int64_t last_ns, bool has_pool);

  [[nodiscard]] const TimelineScale& scale() const { return scale_; }
  [[nodiscard]] std::uint32_t events_per_bucket() const { return pyramid_.events_per_bucket; }
  // When an event happened, up to the time that the events of a bucket take.
  [[nodiscard]] std::int64_t about_when(std::uint32_t event) const;
  // Positions [first, last], one of which is that before the first event at or after the time.
  struct Range {
    Position first = 0;
    Position last = 0;
  };
  [[nodiscard]] Range positions_before(std::int64_t time_ns) const;

  // The moments of each bucket of the tile, which exists: its edges, moved.
  [[nodiscard]] std::vector<Timeline::Bucket> buckets_of(const TileAddress& address) const;
  // The tile without groups, and what each source holds at the most of each bucket.
  struct Answer {
    Tile tile;
    std::vector<SourceBytes> sources;
  };
  [[nodiscard]] Answer tile(const TileAddress& address) const;

 private:
  struct Extremes {
    std::uint64_t min_bytes = 0;
    std::uint64_t max_bytes = 0;
    std::size_t max_bucket = 0;  // the first that has it
    std::uint64_t reserved_bytes = 0;
  };
  // Buckets [first, end) of the pyramid.
  struct Cover {
    std::size_t first = 0;
    std::size_t end = 0;
  };
  [[nodiscard]] std::vector<Cover> covers(const TileAddress& address) const;
  [[nodiscard]] std::size_t edge_at_position(std::uint64_t position) const;
  [[nodiscard]] std::size_t edge_at_time(std::int64_t time_ns) const;
  [[nodiscard]] Extremes extremes(std::size_t first, std::size_t end) const;
  static void join(Extremes& all, const Extremes& one);
  void build_tree();

  Pyramid pyramid_;
  RunStart start_;
  bool has_pool_;
  TimelineScale scale_;
  std::vector<std::int64_t> times_;          // of each bucket's first event, never decreasing
  std::vector<std::vector<Extremes>> tree_;  // [0]: one per bucket; [n]: kFanOut of [n - 1]
};

}  // namespace gpumemprof
