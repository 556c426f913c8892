// RecordInterpreter: turns the records of the ring into the events of the open recordings.
//
// An event in the ring has ticks, and says how its thread's stack changed; the event that a
// recording takes has a time, a stack, a module. It also decides what happened to CPU memory: a
// free carries no size, and libc10 frees memory that is not a tensor's as well. For the drain
// thread alone.
#pragma once

#include <cstdint>

#include "base/flat_map.h"
#include "capture/output/outputs.h"
#include "capture/record.h"
#include "capture/stacks/forward_stacks.h"
#include "capture/stacks/stack_mirror.h"
#include "capture/stream/clock.h"
#include "capture/stream/losses.h"

namespace gpumemprof::capture {

class RecordInterpreter {
 public:
  // Both must outlive this.
  RecordInterpreter(Losses& losses, Outputs& outputs) : losses_(losses), outputs_(outputs) {}

  void take(const Record& record);
  // Events that found the ring full: a run of them, or the free of CPU memory.
  void take(const LossEntry& entry);

  [[nodiscard]] Clock& clock() { return clock_; }
  [[nodiscard]] StackMirror& stacks() { return stacks_; }
  // Whether the pool grew or shrank since reset_pool_change().
  [[nodiscard]] bool has_pool_changed() const { return has_pool_changed_; }
  void reset_pool_change() { has_pool_changed_ = false; }
  // No recording is open.
  void forget_live_memory();

 private:
  // CPU memory that we saw allocated and not freed yet.
  struct CpuBlock {
    std::uint64_t size_bytes = 0;
    RecordingNumber newest_recording = 0;  // see DrainedEvent
  };

  void take(const EventRecord& record);
  void take(const NodeRecord& record);
  void take_cpu_alloc(DrainedEvent& event);
  void take_cpu_free(const DrainedEvent& event);
  void deliver_cpu_free(DrainedEvent event, const CpuBlock& block);

  Losses& losses_;
  Outputs& outputs_;
  Clock clock_;
  StackMirror stacks_;
  ForwardStacks forward_stacks_;
  // The only record of which CPU memory is live: it gives a free its size, and tells each recording
  // whether it holds the allocation.
  FlatMap<CpuBlock> cpu_blocks_;
  bool has_pool_changed_ = false;
};

}  // namespace gpumemprof::capture
