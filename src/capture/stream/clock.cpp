#include "capture/stream/clock.h"

#include <chrono>

namespace gpumemprof::capture {
namespace {

// Long enough for a rate that is right to a few parts in 100,000, short enough not to be noticed.
constexpr std::int64_t kFirstMeasurementNs = 2'000'000;

std::int64_t monotonic_ns() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

std::int64_t system_ns() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(
             std::chrono::system_clock::now().time_since_epoch())
      .count();
}

}  // namespace

Clock::Anchor Clock::now() {
  Anchor best;
  std::uint64_t best_width = ~std::uint64_t{0};
  // A reading that was interrupted in the middle spans a long interval; the narrowest of a few is
  // accurate to some nanoseconds.
  for (int attempt = 0; attempt < 8; ++attempt) {
    const std::uint64_t before = read_ticks();
    const std::int64_t time_ns = monotonic_ns();
    const std::uint64_t after = read_ticks();
    if (after - before < best_width) {
      best_width = after - before;
      best = {before + (after - before) / 2, time_ns};
    }
  }
  return best;
}

Clock::Clock()
    : first_(now()), last_(first_), unix_minus_monotonic_ns_(system_ns() - monotonic_ns()) {
  while (last_.monotonic_ns - first_.monotonic_ns < kFirstMeasurementNs) last_ = now();
  anchor();
}

void Clock::anchor() {
  last_ = now();
  ns_per_tick_ = static_cast<double>(last_.monotonic_ns - first_.monotonic_ns) /
                 static_cast<double>(last_.ticks - first_.ticks);
}

std::int64_t Clock::unix_ns(std::uint64_t ticks) const {
  const double since_last =
      static_cast<double>(static_cast<std::int64_t>(ticks - last_.ticks)) * ns_per_tick_;
  return last_.monotonic_ns + unix_minus_monotonic_ns_ + static_cast<std::int64_t>(since_last);
}

}  // namespace gpumemprof::capture
