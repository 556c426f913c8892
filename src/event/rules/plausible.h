// Numbers as files state them. A forged one may be anything: times that no clock could give count
// as unknown, and sizes are capped above any real device, so that the difference of two times is a
// valid time and the sum of many sizes a valid size.
#pragma once

#include <cstdint>
#include <limits>

#include "event/event.h"

namespace gpumemprof {

// Between 1824 and 2116 for times counted from 1970.
inline constexpr std::int64_t kMostTime = std::numeric_limits<std::int64_t>::max() / 2;

constexpr std::int64_t plausible_time(std::int64_t time_ns) {
  return time_ns > kMostTime || time_ns < -kMostTime ? kUnknownTime : time_ns;
}

// No device has this much.
inline constexpr std::uint64_t kMostSize = std::uint64_t{1} << 44;

constexpr std::uint64_t plausible_size(std::uint64_t bytes) {
  return bytes > kMostSize ? kMostSize : bytes;
}
// For a figure that may be unknown.
constexpr std::uint64_t plausible_bytes(std::uint64_t bytes) {
  return bytes > kMostSize ? kUnknownBytes : bytes;
}

inline void make_plausible(EventColumns& events) {
  for (std::int64_t& time_ns : events.time_ns) time_ns = plausible_time(time_ns);
  for (std::uint64_t& bytes : events.size_bytes) bytes = plausible_size(bytes);
}

}  // namespace gpumemprof
