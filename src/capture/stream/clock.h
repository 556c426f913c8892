// Clock: converts ticks of the processor's clock to nanoseconds since 1970.
//
// Unix time is read once; from then on time advances with the monotonic clock, so that a step of
// the system clock cannot reorder events. The rate is measured over the whole recording and gets
// better with every anchor.
#pragma once

#include <cstdint>

#include "capture/ticks.h"

namespace gpumemprof::capture {

class Clock {
 public:
  Clock();
  // Measures the rate again; call it now and then, not from a callback.
  void anchor();
  [[nodiscard]] std::int64_t unix_ns(std::uint64_t ticks) const;

 private:
  struct Anchor {
    std::uint64_t ticks = 0;
    std::int64_t monotonic_ns = 0;
  };
  static Anchor now();

  Anchor first_;
  Anchor last_;
  std::int64_t unix_minus_monotonic_ns_ = 0;
  double ns_per_tick_ = 1;
};

}  // namespace gpumemprof::capture
