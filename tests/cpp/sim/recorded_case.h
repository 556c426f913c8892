// A recorded run from tests/data/sim: a torch snapshot, and the values of torch's own counters.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "event/alloc_conf.h"
#include "event/event_sink.h"
#include "sim/verify.h"

namespace gpumemprof::sim {

// What torch reported: settings, limit, and its counters at the end.
struct Truth {
  std::string alloc_conf;
  double memory_fraction = 0;
  std::uint64_t device_total_bytes = 0;
  std::vector<NamedCounter> counters;

  static Truth read(const std::string& name);
  [[nodiscard]] std::uint64_t counter(std::string_view name) const;
  [[nodiscard]] MemoryLimit limit() const;
  [[nodiscard]] VerifyOptions options() const;
};

// One device's part of a snapshot. Must not move: run() refers to it.
class RecordedCase {
 public:
  static std::unique_ptr<RecordedCase> load(const std::string& name);

  Truth truth;
  EventColumns events;
  std::vector<SegmentState> segments;
  std::vector<std::uint32_t> first_block = {0};
  std::vector<BlockState> blocks;
  std::vector<PoolId> pools;
  std::vector<std::uint32_t> pool_of_event;

  [[nodiscard]] RecordedRun run() const;
};

}  // namespace gpumemprof::sim
