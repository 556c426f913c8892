#include "capture/thread_slot.h"

#include <pthread.h>
#include <sys/mman.h>

#include <new>

namespace gpumemprof::capture {
namespace {

struct Claim {
  ThreadSlot* slot = nullptr;
  std::atomic<bool>* is_taken = nullptr;
  const ThreadSlots* owner = nullptr;
};
// Trivial, so that neither its making nor its end needs the C++ run time.
thread_local Claim t_claim;

// Gives the slot back when its thread ends.
void release_claim(void* is_taken) {
  t_claim = {};
  static_cast<std::atomic<bool>*>(is_taken)->store(false, std::memory_order_release);
}

pthread_key_t release_key() {
  static const pthread_key_t kKey = [] {
    pthread_key_t made = 0;
    ::pthread_key_create(&made, release_claim);
    return made;
  }();
  return kKey;
}

}  // namespace

ThreadSlots::ThreadSlots() {
  void* memory = ::mmap(nullptr, kMaxThreads * sizeof(ThreadSlot), PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory == MAP_FAILED) throw std::bad_alloc();
  slots_ = static_cast<ThreadSlot*>(memory);
  release_key();
}

ThreadSlots::~ThreadSlots() { ::munmap(slots_, kMaxThreads * sizeof(ThreadSlot)); }

ThreadSlot* ThreadSlots::mine() {
  if (t_claim.owner == this) [[likely]]
    return t_claim.slot;
  return claim();
}

ThreadSlot* ThreadSlots::claim() {
  for (std::size_t number = 0; number < kMaxThreads; ++number) {
    if (is_taken_[number].exchange(true, std::memory_order_acquire)) continue;
    ThreadSlot& slot = slots_[number];
    slot.number = static_cast<std::uint16_t>(number);
    slot.tag = 0;
    if (slot.frames == nullptr) {
      slot.frames = slot.both_stacks.data();
      slot.scratch = slot.both_stacks.data() + kMaxDepth;
      slot.trail = &slot.both_trails[0];
      slot.spare_trail = &slot.both_trails[1];
      slot.running_node = NodeKey();
    }
    t_claim = {&slot, &is_taken_[number], this};
    ::pthread_setspecific(release_key(), &is_taken_[number]);
    return &slot;
  }
  return nullptr;
}

}  // namespace gpumemprof::capture
