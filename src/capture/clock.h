// The processor's clock, which torch's allocator stamps its events with, and what it means in
// nanoseconds since 1970.
//
// Unix time is read once; from then on time advances with the monotonic clock, so that a step of
// the system clock cannot reorder events. The rate is measured over the whole recording and gets
// better with every anchor.
#pragma once

#include <cstdint>

namespace gpumemprof::capture {

inline std::uint64_t read_ticks() {
#if defined(__x86_64__)
  std::uint32_t low = 0;
  std::uint32_t high = 0;
  __asm__ volatile("rdtsc" : "=a"(low), "=d"(high));
  return (static_cast<std::uint64_t>(high) << 32) | low;
#elif defined(__aarch64__)
  std::uint64_t ticks;
  __asm__ volatile("mrs %0, cntvct_el0" : "=r"(ticks));
  return ticks;
#else
#error "gpumemprof reads the clock of x86-64 and aarch64 only"
#endif
}

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
