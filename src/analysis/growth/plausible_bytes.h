// A size that can be summed: a damaged file may claim any.
#pragma once

#include <cstdint>

#include "event/event.h"

namespace gpumemprof {

// Sizes that no memory has lose their highest bits: figures become odd, but sums do not overflow.
constexpr std::int64_t plausible_bytes(std::uint64_t bytes) {
  return static_cast<std::int64_t>(bytes & (kUnknownBytes >> 8U));
}

}  // namespace gpumemprof
