// Whether the run would have survived with its gaps joined: the recorded requests, simulated under
// the same limit with other allocator settings.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "analysis/oom/oom.h"
#include "sim/allocator/rules.h"

namespace gpumemprof {

class JoinedRuns {
 public:
  // Of a longer run, only the first setting that helps is found: a report must not take minutes
  // longer because the run ended in a failure.
  static constexpr std::size_t kEventsForAll = 500'000;

  // All arguments must outlive it. Nothing is simulated before it is asked for.
  JoinedRuns(const Store& store, const DeviceRecord& record, const DeviceReplay& replay,
             const SimulationDeadline& deadline)
      : store_(store), record_(record), replay_(replay), deadline_(deadline) {}

  struct Answer {
    bool is_tried = false;  // false: there is nothing to simulate, or too much
    bool is_late = false;   // there was no time to try
    bool is_exact = false;  // the simulator reproduces the recording
    std::vector<std::string> surviving_confs;
    std::uint64_t reserved_bytes = 0;  // the most that the first of them reserves
  };
  // The settings under which the event's request, and all before it, would have succeeded.
  [[nodiscard]] Answer survivors(std::uint32_t event, const sim::MemoryLimit& limit) const;

 private:
  const Store& store_;
  const DeviceRecord& record_;
  const DeviceReplay& replay_;
  const SimulationDeadline& deadline_;
};

}  // namespace gpumemprof
