// Emitter: the part of the recorder that runs inside the allocator's callbacks.
//
// Any thread may call it at any time, under any lock of torch's. It never waits, allocates, takes
// the GIL or calls CUDA; when the ring is full the event is dropped and counted (losses.h).
#pragma once

#include <array>
#include <atomic>

#include "capture/record.h"
#include "capture/stacks/thread_slot.h"
#include "capture/stream/losses.h"
#include "capture/stream/ring.h"

namespace gpumemprof::capture {

enum class StackUse : std::uint8_t {
  none,
  walk,       // the current stack
  if_paired,  // the stack of the preceding free_requested, if this completes it
};

class alignas(64) Emitter {
 public:
  Emitter(Ring& ring, ThreadSlots& slots) : ring_(ring), slots_(slots), losses_(ring, is_losing_) {}

  // nullptr: no stacks. The walker must live as long as the process.
  void set_walker(const FrameWalker* walker) { walker_.store(walker, std::memory_order_release); }
  // Likewise, for native stacks.
  void set_native_walker(NativeWalker* walker) { native_.store(walker, std::memory_order_release); }
  // Native modules were unloaded.
  void forget_native_modules() {
    if (NativeWalker* walker = native_.load(std::memory_order_acquire); walker != nullptr)
      walker->forget_modules();
  }
  // An event that has just happened: is_alloc(), is_free_requested(), device(), address(), and
  // write(EventRecord&), which writes all but what is determined here.
  template <typename Event>
  void emit(const Event& event, StackUse use);
  // This thread has created an autograd node. `thread_number` is called once for each thread.
  void note_node(std::uint64_t sequence, std::uint64_t (*thread_number)());
  // From now on nodes are created that are not recorded.
  void lose_nodes() { epoch_.fetch_add(1, std::memory_order_relaxed); }
  // Where the node that this thread runs is stored; nullptr if there are too many threads.
  NodeKey* running_node();
  // Tags everything this thread allocates from now on; 0 ends it.
  void set_tag(std::uint16_t tag);
  [[nodiscard]] std::uint16_t tag();

  [[nodiscard]] bool is_losing() const { return is_losing_.load(std::memory_order_relaxed); }
  [[nodiscard]] Losses& losses() { return losses_; }

 private:
  struct EventStack {
    StackChange change = StackChange::none;
    std::uint32_t instruction = 0;
    NativeNumber native = kNoNative;
  };
  // These return whether the event is in the ring now.
  template <typename Event>
  bool send(const Event& event, StackUse use);
  template <typename Event>
  bool send_bare(const Event& event);
  template <typename Event>
  void emit_while_losing(const Event& event, StackUse use);
  template <typename Event>
  void lose(const Event& event);
  template <typename Event>
  static void hand_over(const Event& event, EventStack stack, std::uint16_t thread,
                        std::uint16_t tag, const Ring::Place& place);
  // Makes sure the drain knows which node this thread runs.
  bool send_running_node(ThreadSlot& slot);
  // Makes sure the drain knows the stack of an event or a node. A place claimed for the
  // event is used up if other records must come before it.
  StackChange send_stack(const FrameWalker& walker, ThreadSlot& slot, std::uint32_t& instruction,
                         Ring::Place& place);
  StackChange send_difference(const FrameWalker& walker, ThreadSlot& slot, std::uintptr_t state,
                              std::uint32_t& instruction, Ring::Place& place);
  // The number of the native stack, which the drain knows; kNoNative: there is none, or it does
  // not.
  NativeNumber send_native(NativeWalker& walker, ThreadSlot& slot, Ring::Place& place);
  bool define_native(ThreadSlot& slot, NativeNumber number, Ring::Place& place);
  bool send_addresses(const ThreadSlot& slot, NativeNumber number, Ring::Place& place);
  void give_up(Ring::Place& place);
  [[nodiscard]] static bool is_mirror_current(const FrameWalker& walker, const ThreadSlot& slot,
                                              std::uint64_t destroyed);
  bool send_changes(const FrameWalker& walker, ThreadSlot& slot, const Walk& walk,
                    std::uint64_t destroyed, Ring::Place& place);
  static std::size_t steps_to_keep(const FrameWalker& walker, const ThreadSlot& slot,
                                   const Walk& walk, std::uint64_t destroyed);
  static bool has_same_quick_hashes(const FrameWalker& walker, const ThreadSlot& slot);
  // Makes sure the drain knows the name of the code.
  bool introduce(const FrameWalker& walker, ThreadSlot& slot, std::uintptr_t code,
                 std::uint64_t destroyed, Record& pending, Ring::Place& place);
  // Makes sure the drain knows the class of a module.
  bool introduce_module(ThreadSlot& slot, std::uintptr_t module, std::uint64_t destroyed,
                        Record& pending, Ring::Place& place);
  // Written into the place, if there is one, which is then used up.
  bool push_frames(Record& record, Ring::Place& place);
  bool describe(const FrameWalker& walker, ThreadSlot& slot, std::uintptr_t code,
                std::uint16_t number);

  Ring& ring_;
  ThreadSlots& slots_;
  std::atomic<const FrameWalker*> walker_{nullptr};
  std::atomic<NativeWalker*> native_{nullptr};
  std::atomic<std::uint32_t> epoch_{0};
  std::atomic<bool> is_losing_{false};  // events have been lost, and the drain has not caught up
  Losses losses_;
};

// Inlined at each event source, and short: events are rare enough that their instructions and data
// have left the nearest cache since the last one. The place in the ring is claimed before the stack
// is walked: the claiming instruction waits for everything before it, but not for the walk if that
// comes after.
template <typename Event>
[[gnu::always_inline]] inline void Emitter::emit(const Event& event, StackUse use) {
  if (is_losing()) [[unlikely]]
    return emit_while_losing(event, use);
  if (!send(event, use)) [[unlikely]]
    lose(event);
}

template <typename Event>
[[gnu::always_inline]] inline bool Emitter::send(const Event& event, StackUse use) {
  ThreadSlot* slot = slots_.mine();
  if (slot == nullptr) [[unlikely]]
    return send_bare(event);
  const FrameWalker* walker = walker_.load(std::memory_order_acquire);
  if (walker != nullptr && event.is_alloc() && slot->running != slot->reported_running &&
      !send_running_node(*slot)) [[unlikely]]
    return false;
  EventStack stack;
  Ring::Place place = ring_.claim();
  if (!place) [[unlikely]] {
    slot->last_freed = 0;
    return false;
  }
  NativeWalker* native = native_.load(std::memory_order_acquire);
  if (walker != nullptr || native != nullptr) {
    if (use == StackUse::walk) {
      if (walker != nullptr) stack.change = send_stack(*walker, *slot, stack.instruction, place);
      if (native != nullptr) stack.native = send_native(*native, *slot, place);
      slot->native.current = stack.native;
    } else if (use == StackUse::if_paired && slot->last_freed == event.address()) {
      if (walker != nullptr && slot->is_mirrored) stack.change = StackChange::mirrored;
      if (native != nullptr) stack.native = slot->native.current;
    }
    const bool has_stack = stack.change != StackChange::none || stack.native != kNoNative;
    slot->last_freed = event.is_free_requested() && has_stack ? event.address() : 0;
    if (!place) [[unlikely]] {
      place = ring_.claim();
      if (!place) {
        // The event was to say where the innermost frame is.
        if (stack.change == StackChange::moved) slot->is_mirrored = false;
        return false;
      }
    }
  }
  hand_over(event, stack, slot->number, slot->tag, place);
  return true;
}

// For a thread without a slot.
template <typename Event>
[[gnu::noinline]] bool Emitter::send_bare(const Event& event) {
  const Ring::Place place = ring_.claim();
  if (!place) return false;
  hand_over(event, {}, kNoThread, 0, place);
  return true;
}

template <typename Event>
[[gnu::noinline]] void Emitter::lose(const Event& event) {
  EventRecord record;
  event.write(record);
  losses_.lose(record, false);
}

template <typename Event>
[[gnu::noinline]] void Emitter::emit_while_losing(const Event& event, StackUse use) {
  EventRecord record;
  event.write(record);
  const bool is_cpu = record.device == kCpuSlot;
  Losses::Fate fate = Losses::Fate::unknown;
  if (is_cpu && !event.is_alloc()) fate = losses_.freeing(record);
  if (fate == Losses::Fate::lost_with_its_allocation) return;
  if (!send(event, use)) return losses_.lose(record, fate == Losses::Fate::was_sent);
  if (is_cpu && event.is_alloc()) losses_.note_sent(record.address);
}

template <typename Event>
[[gnu::always_inline]] inline void Emitter::hand_over(const Event& event, EventStack stack,
                                                      std::uint16_t thread, std::uint16_t tag,
                                                      const Ring::Place& place) {
  EventRecord& record = Ring::record_at(place).event;
  record.kind = RecordKind::event;
  record.thread = thread;
  record.tag = tag;
  record.stack = stack.change;
  record.instruction = stack.instruction;
  record.native = stack.native;
  event.write(record);
  Ring::hand_over(place);
}

}  // namespace gpumemprof::capture
