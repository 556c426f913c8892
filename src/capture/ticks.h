// The processor's clock, with which torch's allocator stamps its events, too.
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

}  // namespace gpumemprof::capture
