// LongRange: what happened between two moments of a long run, however far apart they are. The
// stretches between them are read one after the other, and each is forgotten before the next.
#pragma once

#include <functional>

#include "session/long_view/long_device.h"

namespace gpumemprof {

class LongRange {
 public:
  // Both positions exist; the device must outlive it.
  LongRange(const LongDevice& device, Position from, Position to)
      : device_(device), from_(from), to_(to) {}

  // Called before each stretch; false: nobody waits for the answer any more.
  using GoesOn = std::function<bool(std::uint64_t done, std::uint64_t total)>;

  // What is allocated at both ends; the peak is not known yet.
  [[nodiscard]] Result<view::RangeFacts> ends() const;
  // What was allocated in it and is live at its end: from its last stretch alone.
  [[nodiscard]] Result<RangeChanges> survivors() const;
  [[nodiscard]] Result<Flame> surviving_flame(FlameBy by) const;
  // All of it, and the peak. An Error if it does not go on.
  [[nodiscard]] Result<RangeChanges> changes(view::RangeFacts& facts, const GoesOn& goes_on) const;
  [[nodiscard]] Result<Flame> flame(RangePart part, FlameBy by, const GoesOn& goes_on) const;

 private:
  // Part of a stretch: local positions.
  struct Piece {
    const Stretch& stretch;
    Position from = 0;
    Position to = 0;
  };
  Status each_piece(const GoesOn& goes_on, const std::function<void(const Piece&)>& use) const;
  [[nodiscard]] bool is_born_in_it(const Stretch& stretch, std::size_t row) const;

  const LongDevice& device_;
  Position from_;
  Position to_;
};

}  // namespace gpumemprof
