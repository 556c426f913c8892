// SiteTrend: how the memory of one line of code changes from floor to floor, and whether it grows.
//
// TrendFollower reads the changes once, in order, and keeps sums only: however many floors a run
// has, a line takes the same memory.
#pragma once

#include <cstdint>
#include <optional>

namespace gpumemprof {

// What happened to the memory of one line between a floor and the one before.
struct FloorChange {
  std::int64_t born_bytes = 0;  // live at this floor, not at the one before
  std::int64_t kept_bytes = 0;  // part of these: live at the next floor too
  std::int64_t freed_bytes = 0;
  std::int64_t collected_bytes = 0;  // part of these: freed by the garbage collector
  std::int32_t born_blocks = 0;
  std::int32_t freed_blocks = 0;

  [[nodiscard]] std::int64_t bytes() const { return born_bytes - freed_bytes; }
};

enum class Trend : std::uint8_t {
  flat,         // or too little to speak of
  stopped,      // it grew after the first steps, and no longer does
  up_and_down,  // it grows and is freed again
  growing,
};

struct SiteTrend {
  Trend trend = Trend::flat;
  std::uint32_t first_floor = 0;  // growing: the first floor that is higher than the one before
  std::uint32_t last_floor = 0;   // the last one
  std::uint32_t rises = 0;        // number of floors that are higher than the one before
  std::uint64_t grown_bytes = 0;
  std::int64_t grown_blocks = 0;  // since the first floor, less those that were freed
  double bytes_per_floor = 0;
  // Relative error of the rate: how unevenly it grows.
  double error = 0;
  // Nothing stays: each time, all of it is replaced by more.
  bool is_replaced = false;
  // up_and_down: only the garbage collector frees it.
  bool is_collected = false;
  std::uint64_t swing_bytes = 0;  // up_and_down: the most it grew before it was freed
};

// How many blocks saw floors.
struct BlockCounts {
  std::int64_t born = 0;
  std::int64_t freed = 0;
  std::int64_t live_in_middle = 0;  // after the floor in the middle of the run
};

class TrendFollower {
 public:
  // `floors`: in total.
  explicit TrendFollower(std::size_t floors) : floors_(floors) {}

  // The next floor at which something changed.
  void add(std::uint32_t floor, const FloorChange& change);
  // So far.
  [[nodiscard]] SiteTrend trend() const;
  [[nodiscard]] const BlockCounts& blocks() const { return blocks_; }

 private:
  struct Point {
    std::uint32_t floor = 0;
    std::int64_t bytes = 0;   // live at the floor
    std::int64_t blocks = 0;  // at the floor before
  };
  // Points one after the other, as sums.
  struct Ascent {
    std::uint32_t count = 0;
    Point first;
    Point last;
    std::int64_t start_bytes = 0;  // before the first
    std::uint32_t longest_pause = 1;
    std::int64_t bytes_at_middle = 0;  // of what is left of the run after the first
    // The increments: their mean, and the sum of the squares of how far they are from it.
    double mean = 0;
    double squares = 0;

    void add(const Point& point, std::int64_t start, std::size_t floors);
    [[nodiscard]] bool continues(std::size_t floors, bool is_replaced) const;
    // What it has grown from.
    [[nodiscard]] std::int64_t base(bool is_replaced) const;
  };
  // The net changes from some floor on.
  struct Walk {
    Ascent rises;
    std::uint32_t falls = 0;
    std::int64_t risen_bytes = 0;
    std::int64_t fallen_bytes = 0;
    std::int64_t collected_bytes = 0;  // part of the falls
    std::int64_t kept_bytes = 0;       // part of the rises
    void rise(const Point& point, std::int64_t before, const FloorChange& change,
              std::size_t floors);
  };

  void fall(const Point& point, const FloorChange& change);
  void add_valley(const Point& point);
  [[nodiscard]] bool grows_steadily(SiteTrend& trend, const Walk& walk) const;
  [[nodiscard]] bool grows_from_valley_to_valley(SiteTrend& trend) const;
  void measure(SiteTrend& trend, const Ascent& ascent) const;

  std::size_t floors_;
  std::int64_t live_bytes_ = 0;
  BlockCounts blocks_;
  std::int64_t warm_up_bytes_ = 0;   // change at the last floor of the warm-up
  std::int64_t warm_up_blocks_ = 0;  // before it
  Walk walk_;                        // after the warm-up
  Walk since_fall_;                  // after the last fall
  std::optional<Point> last_fall_;
  Ascent valleys_;  // but for the last fall, which may not be the end of it
  bool are_valleys_rising_ = true;
  std::int64_t valley_bytes_ = 0;  // the state that the next rise is compared with
  std::int64_t swing_bytes_ = 0;
};

}  // namespace gpumemprof
