// Scope: a section of a program's run on one device, between open() and close(): the counters at
// its start, end and peak, with the time of each.
//
// Times: one reading of the system clock when it opens; from there on the monotonic clock. The time
// of the peak is derived from the processor's ticks between start and end. A scope may be closed by
// a thread other than the one that opened it, but not by two at once.
#pragma once

#include <cstdint>
#include <optional>

#include "capture/ledger/ledger.h"

namespace gpumemprof::capture {

struct ScopeFigures {
  ScopeReading reading;
  std::int64_t start_unix_ns = 0;
  std::int64_t duration_ns = 0;
  std::int64_t peak_after_ns = 0;  // since the start
  std::optional<std::uint64_t> resident_before_bytes;
  std::optional<std::uint64_t> resident_after_bytes;
};

class Scope {
 public:
  // Counting of the device must have been started. with_resident: also read the process's resident
  // memory.
  Scope(DeviceSlot slot, bool with_resident);
  Scope(const Scope&) = delete;
  Scope& operator=(const Scope&) = delete;
  ~Scope();

  void open();
  // None: it is not open, or counting restarted since.
  std::optional<ScopeFigures> close();
  // The same, and reopens it from that point.
  std::optional<ScopeFigures> turn_over();

 private:
  void start_times();
  ScopeFigures figures(const ScopeReading& reading, std::int64_t end_monotonic_ns) const;

  Ledger& ledger_;
  OpenScope scope_;
  bool with_resident_;
  std::int64_t start_unix_ns_ = 0;
  std::int64_t start_monotonic_ns_ = 0;
  std::optional<std::uint64_t> resident_before_bytes_;
};

}  // namespace gpumemprof::capture
