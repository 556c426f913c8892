// ChapterFigures: what is known about a chapter of a long recording without its events.
#pragma once

#include <cstdint>
#include <vector>

#include "event/event.h"

namespace gpumemprof {

// A chapter of a folder, whether its events are still there or only its figures.
struct ChapterFigures {
  struct Device {
    DeviceIndex device = 0;
    std::uint64_t peak_allocated_bytes = 0;
    std::uint64_t peak_reserved_bytes = 0;
    std::uint64_t floor_bytes = 0;  // the least allocated
    std::uint64_t end_bytes = 0;    // allocated at its end
  };

  std::uint32_t number = 0;
  bool is_kept = false;
  bool has_figures = false;  // false: the folder has no summary of it
  std::uint64_t size_bytes = 0;
  std::int64_t first_time_ns = kUnknownTime;
  std::int64_t last_time_ns = kUnknownTime;
  std::uint64_t events = 0;
  std::uint64_t failures = 0;    // out of memory
  std::uint64_t retries = 0;     // the pool was flushed right before it grew
  std::uint32_t first_step = 0;  // 0: no step ended in it
  std::uint32_t last_step = 0;
  std::vector<Device> devices;
};

// Training steps, one or several in a row, on one device.
struct StepSummary {
  std::uint32_t first = 0;  // counted from 1
  std::uint32_t last = 0;
  DeviceIndex device = 0;
  std::uint64_t peak_bytes = 0;  // allocated
  std::uint64_t floor_bytes = 0;
  std::uint64_t reserved_bytes = 0;  // the most
  std::uint64_t end_bytes = 0;       // allocated at the end of the last
  std::uint64_t events = 0;
};

}  // namespace gpumemprof
