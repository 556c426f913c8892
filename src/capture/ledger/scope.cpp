#include "capture/ledger/scope.h"

#include <chrono>

#include "base/error.h"
#include "capture/ledger/resident.h"

namespace gpumemprof::capture {
namespace {

template <typename AnyClock>
std::int64_t now_ns() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(AnyClock::now().time_since_epoch())
      .count();
}

Ledger& counted(DeviceSlot slot) {
  Ledger* ledger = counting_ledger(slot);
  GMP_CHECK(ledger != nullptr);
  return *ledger;
}

}  // namespace

Scope::Scope(DeviceSlot slot, bool with_resident)
    : ledger_(counted(slot)), with_resident_(with_resident) {}

Scope::~Scope() { static_cast<void>(ledger_.close(scope_)); }

void Scope::start_times() {
  start_unix_ns_ = now_ns<std::chrono::system_clock>();
  start_monotonic_ns_ = now_ns<std::chrono::steady_clock>();
}

void Scope::open() {
  static_cast<void>(ledger_.close(scope_));
  if (with_resident_) resident_before_bytes_ = resident_bytes();
  ledger_.open(scope_);
  start_times();
}

std::optional<ScopeFigures> Scope::close() {
  const std::int64_t end_ns = now_ns<std::chrono::steady_clock>();
  const std::optional<ScopeReading> reading = ledger_.close(scope_);
  if (!reading) return std::nullopt;
  return figures(*reading, end_ns);
}

std::optional<ScopeFigures> Scope::turn_over() {
  const std::int64_t end_ns = now_ns<std::chrono::steady_clock>();
  const std::optional<ScopeReading> reading = ledger_.turn_over(scope_);
  std::optional<ScopeFigures> result;
  if (reading) result = figures(*reading, end_ns);
  start_times();
  resident_before_bytes_ = result ? result->resident_after_bytes : std::nullopt;
  return result;
}

ScopeFigures Scope::figures(const ScopeReading& reading, std::int64_t end_monotonic_ns) const {
  ScopeFigures figures;
  figures.reading = reading;
  figures.start_unix_ns = start_unix_ns_;
  figures.duration_ns = end_monotonic_ns - start_monotonic_ns_;
  const std::uint64_t ticks = reading.after.ticks - reading.before.ticks;
  if (ticks > 0) {
    const double share =
        static_cast<double>(reading.peak.ticks - reading.before.ticks) / static_cast<double>(ticks);
    figures.peak_after_ns =
        static_cast<std::int64_t>(share * static_cast<double>(figures.duration_ns));
  }
  figures.resident_before_bytes = resident_before_bytes_;
  if (with_resident_) figures.resident_after_bytes = resident_bytes();
  return figures;
}

}  // namespace gpumemprof::capture
