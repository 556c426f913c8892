// Random: the generator's own numbers, so that a seed gives the same file everywhere.
#pragma once

#include <cstdint>

namespace gpumemprof::long_run {

// SplitMix64.
class Random {
 public:
  explicit Random(std::uint64_t seed) : state_(seed) {}

  std::uint64_t next() {
    state_ += 0x9E37'79B9'7F4A'7C15;
    std::uint64_t mixed = state_;
    mixed = (mixed ^ (mixed >> 30U)) * 0xBF58'476D'1CE4'E5B9;
    mixed = (mixed ^ (mixed >> 27U)) * 0x94D0'49BB'1331'11EB;
    return mixed ^ (mixed >> 31U);
  }
  // Below `end`, which is small.
  std::uint64_t below(std::uint32_t end) { return ((next() >> 32U) * end) >> 32U; }

 private:
  std::uint64_t state_;
};

}  // namespace gpumemprof::long_run
