// SiteTrend: how the memory of one line of code changes from floor to floor, and whether it grows.
#pragma once

#include <cstdint>

#include "analysis/leaks/floor_table.h"

namespace gpumemprof {

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
  double bytes_per_floor = 0;
  // Relative error of the rate: how unevenly it grows.
  double error = 0;
  // Nothing stays: each time, all of it is replaced by more.
  bool is_replaced = false;
  // up_and_down: only the garbage collector frees it.
  bool is_collected = false;
  std::uint64_t swing_bytes = 0;  // up_and_down: the most it grew before it was freed
};

// `floors`: in total.
SiteTrend find_trend(const SiteFloors& site, std::size_t floors);

}  // namespace gpumemprof
