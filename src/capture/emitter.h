// Emitter: the part of the recorder that runs inside the allocator's callbacks.
//
// Any thread may call it at any time, under any lock of torch's. It never waits, allocates, takes
// the GIL or calls CUDA; when the ring is full the event is dropped and counted, and the next one
// that fits carries the count.
#pragma once

#include <array>
#include <atomic>

#include "capture/record.h"
#include "capture/ring.h"
#include "capture/thread_slot.h"

namespace gpumemprof::capture {

enum class StackUse : std::uint8_t {
  none,
  walk,       // the stack of this moment
  if_paired,  // that of the free_requested just before, if this completes it
};

class alignas(64) Emitter {
 public:
  Emitter(Ring& ring, ThreadSlots& slots) : ring_(ring), slots_(slots) {}

  // nullptr: no stacks. The walker must live as long as the process.
  void set_walker(const FrameWalker* walker) { walker_.store(walker, std::memory_order_release); }
  // The record is that of an event, and is completed here.
  void emit(Record& record, StackUse use);
  // This thread has made a node of autograd's graph. `thread_number` is asked once for each thread.
  void note_node(std::uint64_t sequence, std::uint64_t (*thread_number)());
  // From now on nodes are made that are not noted.
  void lose_nodes() { epoch_.fetch_add(1, std::memory_order_relaxed); }
  // Where the node that this thread runs is kept; nullptr when there are too many threads.
  NodeKey* running_node();
  // Names everything this thread allocates from now on; 0 ends it.
  void set_tag(std::uint16_t tag);
  [[nodiscard]] std::uint16_t tag();

  // Events dropped since the last one of that device that fitted.
  std::uint32_t take_lost(std::uint8_t device) {
    return lost_[device].exchange(0, std::memory_order_relaxed);
  }

 private:
  // Makes sure that the drain knows which node this thread runs.
  bool send_running_node(ThreadSlot& slot);
  // What an event or a node says of its stack, once the drain knows it. A place that was won for
  // the event is given up where more must come before it.
  StackWord send_stack(const FrameWalker& walker, ThreadSlot& slot, std::uint32_t& instruction,
                       Ring::Place& place);
  StackWord send_difference(const FrameWalker& walker, ThreadSlot& slot, const Walk& walk,
                            std::uint32_t& instruction, Ring::Place& place);
  void give_up(Ring::Place& place);
  void lose(const EventRecord& event);
  [[nodiscard]] static bool is_mirror_true(const FrameWalker& walker, const ThreadSlot& slot,
                                           std::uint64_t deaths);
  bool send_changes(const FrameWalker& walker, ThreadSlot& slot, const Walk& walk,
                    std::uint64_t deaths);
  static std::size_t steps_to_keep(const FrameWalker& walker, const ThreadSlot& slot,
                                   const Walk& walk, std::uint64_t deaths);
  static bool has_same_glances(const FrameWalker& walker, const ThreadSlot& slot);
  // Makes sure that the drain knows what the code is called.
  bool introduce(const FrameWalker& walker, ThreadSlot& slot, std::uintptr_t code,
                 std::uint64_t deaths, Record& pending);
  bool push_frames(Record& record);
  bool describe(const FrameWalker& walker, ThreadSlot& slot, std::uintptr_t code,
                std::uint16_t number);

  Ring& ring_;
  ThreadSlots& slots_;
  std::atomic<const FrameWalker*> walker_{nullptr};
  std::atomic<std::uint32_t> epoch_{0};
  std::array<std::atomic<std::uint32_t>, kDeviceSlots> lost_{};
};

}  // namespace gpumemprof::capture
