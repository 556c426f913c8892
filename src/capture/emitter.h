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
  // An event that has just happened: is_alloc(), is_free_requested(), device(), address(), and
  // write(EventRecord&), which writes all but what is found out here.
  template <typename Event>
  void emit(const Event& event, StackUse use);
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
  struct EventStack {
    StackWord word = StackWord::none;
    std::uint32_t instruction = 0;
  };
  template <typename Event>
  void emit_bare(const Event& event);
  template <typename Event>
  void hand_over(const Event& event, EventStack stack, std::uint16_t thread, std::uint16_t tag,
                 const Ring::Place& place);
  // Makes sure that the drain knows which node this thread runs.
  bool send_running_node(ThreadSlot& slot);
  // What an event or a node says of its stack, once the drain knows it. A place that was won for
  // the event is used up where more must come before it.
  StackWord send_stack(const FrameWalker& walker, ThreadSlot& slot, std::uint32_t& instruction,
                       Ring::Place& place);
  StackWord send_difference(const FrameWalker& walker, ThreadSlot& slot, std::uintptr_t state,
                            std::uint32_t& instruction, Ring::Place& place);
  void give_up(Ring::Place& place);
  void lose(std::uint8_t device);
  // Events that were lost before this one, which tells of them.
  std::uint32_t lost_before(std::uint8_t device);
  // Another place for an event whose first one was used up; false: it is lost.
  bool claim_again(std::uint8_t device, Ring::Place& place);
  [[nodiscard]] static bool is_mirror_true(const FrameWalker& walker, const ThreadSlot& slot,
                                           std::uint64_t deaths);
  bool send_changes(const FrameWalker& walker, ThreadSlot& slot, const Walk& walk,
                    std::uint64_t deaths, Ring::Place& place);
  static std::size_t steps_to_keep(const FrameWalker& walker, const ThreadSlot& slot,
                                   const Walk& walk, std::uint64_t deaths);
  static bool has_same_glances(const FrameWalker& walker, const ThreadSlot& slot);
  // Makes sure that the drain knows what the code is called.
  bool introduce(const FrameWalker& walker, ThreadSlot& slot, std::uintptr_t code,
                 std::uint64_t deaths, Record& pending, Ring::Place& place);
  // Into the place, if there is one, which is used up then.
  bool push_frames(Record& record, Ring::Place& place);
  bool describe(const FrameWalker& walker, ThreadSlot& slot, std::uintptr_t code,
                std::uint16_t number);

  Ring& ring_;
  ThreadSlots& slots_;
  std::atomic<const FrameWalker*> walker_{nullptr};
  std::atomic<std::uint32_t> epoch_{0};
  std::atomic<bool> has_lost_{false};  // some device's count below may not be 0
  std::array<std::atomic<std::uint32_t>, kDeviceSlots> lost_{};
};

// Inlined where events come from, and short: an event comes seldom enough that its instructions
// and what it reads have left the nearest cache since the last one. The place in the ring is won
// before the stack is walked: what wins it waits for everything that came before, and the walk is
// not waited for if it comes after.
template <typename Event>
[[gnu::always_inline]] inline void Emitter::emit(const Event& event, StackUse use) {
  ThreadSlot* slot = slots_.mine();
  if (slot == nullptr) [[unlikely]]
    return emit_bare(event);
  const FrameWalker* walker = walker_.load(std::memory_order_acquire);
  if (walker != nullptr && event.is_alloc() && slot->running != slot->told_running &&
      !send_running_node(*slot)) [[unlikely]]
    return lose(event.device());
  EventStack stack;
  Ring::Place place = ring_.claim();
  if (!place) [[unlikely]] {
    slot->last_freed = 0;
    return lose(event.device());
  }
  if (walker != nullptr) {
    if (use == StackUse::walk) {
      stack.word = send_stack(*walker, *slot, stack.instruction, place);
    } else if (use == StackUse::if_paired && slot->is_mirrored &&
               slot->last_freed == event.address()) {
      stack.word = StackWord::mirrored;
    }
    slot->last_freed =
        event.is_free_requested() && stack.word != StackWord::none ? event.address() : 0;
    if (!place && !claim_again(event.device(), place)) [[unlikely]]
      return;
  }
  hand_over(event, stack, slot->number, slot->tag, place);
}

// Of a thread for which there is no slot.
template <typename Event>
[[gnu::noinline]] void Emitter::emit_bare(const Event& event) {
  const Ring::Place place = ring_.claim();
  if (!place) return lose(event.device());
  hand_over(event, {}, kNoThread, 0, place);
}

template <typename Event>
[[gnu::always_inline]] inline void Emitter::hand_over(const Event& event, EventStack stack,
                                                      std::uint16_t thread, std::uint16_t tag,
                                                      const Ring::Place& place) {
  EventRecord& record = Ring::record_at(place).event;
  record.kind = RecordKind::event;
  record.thread = thread;
  record.tag = tag;
  record.stack = stack.word;
  record.instruction = stack.instruction;
  record.lost_before = has_lost_.load(std::memory_order_relaxed) ? lost_before(event.device()) : 0;
  event.write(record);
  Ring::hand_over(place);
}

}  // namespace gpumemprof::capture
