// RunTables: the steps of a run and the sources of its memory as tables, a row each; found while
// the run is walked, so that every step has its row, however long the run.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <variant>
#include <vector>

#include "analysis/walk/memory_walk.h"
#include "replay/replay.h"

namespace gpumemprof {

// Nothing: not known.
using Cell = std::variant<std::monostate, std::int64_t, std::string>;

struct SmallTable {
  std::string name;
  std::vector<std::string> columns;
  std::vector<std::vector<Cell>> rows;
};

class RunTablesSum {
 public:
  RunTablesSum();
  ~RunTablesSum();
  RunTablesSum(const RunTablesSum&) = delete;
  RunTablesSum& operator=(const RunTablesSum&) = delete;

  // The parts of a device, in order; its first event has this number in the run, and `spans` are
  // numbered by the record's events.
  void add(const WalkedPart& part, const std::vector<PhaseSpan>& spans, std::uint32_t first_number,
           const DeviceReplay& replay, const std::string& device);

  // steps: device, step (0: before the first), first_event, last_event, first_time_ns,
  // last_time_ns, peak_bytes, floor_bytes, end_bytes.
  [[nodiscard]] SmallTable steps() const;
  // sources: device, source, bytes_at_peak, bytes_max, provenance; and the rounding.
  [[nodiscard]] SmallTable sources() const;

 private:
  class DeviceSum;
  std::map<DeviceIndex, std::unique_ptr<DeviceSum>> devices_;
};

}  // namespace gpumemprof
