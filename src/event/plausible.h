// Numbers as files state them. A forged one may be anything: what no clock gives counts as unknown,
// and no size is larger than any device, so that the difference of two times is a time and the sum
// of many sizes a size.
#pragma once

#include <cstdint>
#include <limits>

#include "event/event.h"

namespace gpumemprof {

// Between 1824 and 2116 where times count from 1970.
inline constexpr std::int64_t kMostTime = std::numeric_limits<std::int64_t>::max() / 2;

constexpr std::int64_t plausible_time(std::int64_t time_ns) {
  return time_ns > kMostTime || time_ns < -kMostTime ? kUnknownTime : time_ns;
}

// No device has as much.
inline constexpr std::uint64_t kMostSize = std::uint64_t{1} << 44;

constexpr std::uint64_t plausible_size(std::uint64_t bytes) {
  return bytes > kMostSize ? kMostSize : bytes;
}
// Of a figure that may be unknown.
constexpr std::uint64_t plausible_bytes(std::uint64_t bytes) {
  return bytes > kMostSize ? kUnknownBytes : bytes;
}

}  // namespace gpumemprof
