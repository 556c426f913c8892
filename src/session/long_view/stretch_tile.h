// StretchTile: a tile of a long run's timeline, put together from the stretches that it touches.
// It equals the tile of a Timeline of the whole run.
#pragma once

#include <vector>

#include "session/long_view/stretch_cache.h"

namespace gpumemprof {

class StretchTile {
 public:
  StretchTile(const TimelineScale& scale, const TileAddress& address)
      : scale_(scale), address_(address) {}

  // Stretches that follow each other and hold all of the tile.
  [[nodiscard]] Tile of(const std::vector<StretchPtr>& stretches, GroupBy by);

 private:
  void place_buckets(const std::vector<StretchPtr>& stretches);
  void add(const Stretch& stretch, GroupBy by);
  void join(std::size_t bucket, const Stretch& stretch, const Tile& part, std::size_t row);

  TimelineScale scale_;
  TileAddress address_;
  std::vector<Timeline::Bucket> buckets_;  // positions of the run
  std::vector<bool> is_filled_;
  Tile tile_;
};

}  // namespace gpumemprof
