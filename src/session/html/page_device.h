// What a standalone page holds of a device whose every event does not fit into it: which moments,
// which allocations. Of a run that is too long for memory, only what a few openings of the
// recording show.
#pragma once

#include <set>
#include <string>
#include <vector>

#include "session/view.h"

namespace gpumemprof {

class PageDevice {
 public:
  // The view must outlive it and have the device.
  PageDevice(const View& view, DeviceName name) : view_(view), name_(name) {}

  [[nodiscard]] DeviceName name() const { return name_; }
  [[nodiscard]] bool is_long() const { return view_.indexed(name_) != nullptr; }
  [[nodiscard]] TimelineScale scale() const { return view_.scale(name_); }
  [[nodiscard]] Position last_position() const {
    return static_cast<Position>(scale().positions - 1);
  }
  // The peak, the end, and the first errors.
  [[nodiscard]] std::set<Position> key_moments() const;
  // The tiles that these and other peaks are in.
  [[nodiscard]] std::vector<TileAddress> close_up_tiles(std::uint32_t level) const;
  // The fullest in each of `count` parts of the run; fewer of a long run.
  [[nodiscard]] std::set<Position> spread_moments(std::size_t count) const;
  // The fullest moment of each bucket of a level. Of a long run, when it was is known up to the
  // time of a few events, and not what was reserved.
  [[nodiscard]] Result<std::vector<view::MomentFacts>> fullest_moments(std::uint32_t level) const;
  // Where single allocations are listed: all positions, of a long run those around the peak.
  struct Listed {
    ViewedPart part;
    Position from = 0;
    Position to = 0;
    std::uint64_t allocations = 0;  // in there
  };
  [[nodiscard]] Result<Listed> listed() const;

 private:
  const View& view_;
  DeviceName name_;
};

}  // namespace gpumemprof
