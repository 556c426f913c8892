// A recording as a Perfetto trace: for each device, counters of what is allocated, what is reserved
// and what each source holds; steps, phases and annotations as slices; every allocation as an
// instant with its call stack; periods without events; and the peak as a heap profile, which the UI
// draws as a flame graph.
//
// Written part by part, in memory that grows with the stacks of the run and one part of it. Times
// are the recording's (nanoseconds since 1970) minus those that a Kineto trace of the run leaves
// out.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <vector>

#include "analysis/stack_profile/stack_profile.h"
#include "analysis/walk/memory_walk.h"
#include "report/about/about.h"
#include "report/perfetto/perfetto_writer.h"

namespace gpumemprof {

struct TracedDevice {
  DeviceIndex device = 0;
  bool has_pool = true;  // else what is reserved is unknown, and has no counter
  std::vector<LostEvents> lost_events;
  std::int64_t first_time_ns = kUnknownTime;  // of its first event
};

class MemoryTrace {
 public:
  MemoryTrace(std::unique_ptr<FileSink> file, const Store& store, std::vector<AboutLine> about,
              std::int64_t base_ns);
  ~MemoryTrace();
  MemoryTrace(const MemoryTrace&) = delete;
  MemoryTrace& operator=(const MemoryTrace&) = delete;

  // Before the first part of the device.
  void add_device(const TracedDevice& device);
  // The parts of a device, in order; `spans` are numbered by the record's events.
  void add(const WalkedPart& part, const std::vector<PhaseSpan>& spans);
  // After the last part.
  Status finish(const StackProfile& peak);

 private:
  class DeviceTrace;

  void write_beginning(std::int64_t time_ns);
  void write_annotations();

  const Store& store_;
  std::vector<AboutLine> about_;
  std::int64_t base_ns_;
  std::int32_t pid_ = 0;
  bool has_begun_ = false;
  PerfettoWriter writer_;
  std::map<DeviceIndex, std::unique_ptr<DeviceTrace>> devices_;
};

}  // namespace gpumemprof
