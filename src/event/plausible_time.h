// Times as files state them. A forged one may be anything; what no clock gives counts as unknown,
// so that the difference of any two times is a time, too.
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

}  // namespace gpumemprof
