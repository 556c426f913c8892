#include "capture/stacks/thread_slot.h"

#include <sys/mman.h>

#include <new>

namespace gpumemprof::capture {

struct ThreadClaim {
  ThreadSlot* slot = nullptr;
  ThreadSlots* owner = nullptr;

  static void end(void* claim) {
    auto* mine = static_cast<ThreadClaim*>(claim);
    if (mine->owner != nullptr) mine->owner->release(*mine->slot);
    *mine = {};
  }
};

namespace {

// Trivial type, so that construction and destruction need no C++ run-time support.
thread_local ThreadClaim t_claim;

// Gives the slot back when its thread ends.
pthread_key_t release_key() {
  static const pthread_key_t kKey = [] {
    pthread_key_t made = 0;
    ::pthread_key_create(&made, ThreadClaim::end);
    return made;
  }();
  return kKey;
}

}  // namespace

ThreadSlots::ThreadSlots() {
  if (slot_at(0) == nullptr) throw std::bad_alloc();
  release_key();
}

ThreadSlots::~ThreadSlots() {
  if (t_claim.owner == this) t_claim = {};
  for (const std::atomic<ThreadSlot*>& group : groups_) {
    ThreadSlot* slots = group.load(std::memory_order_relaxed);
    if (slots == nullptr) continue;
    // Slots are claimed from the first on: those after one that never was are untouched.
    for (std::size_t index = 0; index < kSlotsInGroup && slots[index].was_used; ++index)
      slots[index].native.give_memory_back();
    ::munmap(slots, kSlotsInGroup * sizeof(ThreadSlot));
  }
}

ThreadSlot* ThreadSlots::slot_at(std::size_t number) {
  std::atomic<ThreadSlot*>& group = groups_[number / kSlotsInGroup];
  ThreadSlot* slots = group.load(std::memory_order_acquire);
  if (slots == nullptr) {
    constexpr std::size_t kBytes = kSlotsInGroup * sizeof(ThreadSlot);
    void* memory = ::mmap(nullptr, kBytes, PROT_READ | PROT_WRITE,
                          MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (memory == MAP_FAILED) return nullptr;
    if (group.compare_exchange_strong(slots, static_cast<ThreadSlot*>(memory),
                                      std::memory_order_acq_rel)) {
      slots = static_cast<ThreadSlot*>(memory);
    } else {
      ::munmap(memory, kBytes);  // Another thread was faster.
    }
  }
  return &slots[number % kSlotsInGroup];
}

ThreadSlot* ThreadSlots::find_or_claim() {
  if (t_claim.owner == this) return t_claim.slot;
  return claim();
}

ThreadSlot* ThreadSlots::claim() {
  for (std::size_t number = 0; number < kMaxThreads; ++number) {
    if (is_taken_[number].exchange(true, std::memory_order_acquire)) continue;
    ThreadSlot* memory = slot_at(number);
    if (memory == nullptr) {
      is_taken_[number].store(false, std::memory_order_release);
      return nullptr;
    }
    ThreadSlot& slot = *memory;
    slot.number = static_cast<std::uint16_t>(number);
    slot.tag = 0;
    slot.kept_state = 0;
    slot.running = NodeKey();
    slot.noted.is_open = false;
    slot.noted.thread = 0;
    slot.native.end = StackEnd();
    if (!slot.was_used) slot.reported_running = NodeKey();
    slot.was_used = true;
    t_claim = {&slot, this};
    ::pthread_setspecific(release_key(), &t_claim);
    const std::uintptr_t thread = this_thread();
    ThreadEntry& entry = entry_of(thread);
    std::uintptr_t nobody = 0;
    if (entry.thread.compare_exchange_strong(nobody, thread)) entry.slot = &slot;
    return &slot;
  }
  return nullptr;
}

void ThreadSlots::release(ThreadSlot& slot) {
  const std::uintptr_t thread = this_thread();
  ThreadEntry& entry = entry_of(thread);
  if (entry.thread.load(std::memory_order_relaxed) == thread)
    entry.thread.store(0, std::memory_order_release);
  is_taken_[slot.number].store(false, std::memory_order_release);
}

}  // namespace gpumemprof::capture
