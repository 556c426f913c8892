// ThreadSlot: what the recorder remembers about one thread: its last stack and the code objects it
// has described.
//
// The drain keeps a mirror of every slot, fed through the ring. A slot outlives its thread and
// serves the next one, so mirror and slot never disagree. Owned by the thread that claimed it; the
// pool is shared.
#pragma once

#include <pthread.h>

#include <array>
#include <atomic>
#include <cstdint>

#include "capture/native/native_walker.h"
#include "capture/record.h"
#include "capture/stacks/frame_walker.h"

namespace gpumemprof::capture {

inline constexpr std::size_t kMaxThreads = 512;  // at once; others get events without stacks
inline constexpr std::size_t kCodeSlots =
    4096;  // code objects a thread remembers; others are described again

// A code object the drain knows by this slot's number.
struct KnownCode {
  std::uintptr_t code = 0;
  std::uint64_t fingerprint = 0;
  std::uint64_t stamp = 0;  // as long as this is unchanged, so is the code
};

// A module whose class the drain knows.
inline constexpr std::size_t kModuleSlots = 2048;
struct KnownModule {
  std::uintptr_t module = 0;
  std::uintptr_t type = 0;
  std::uint64_t destroyed = 0;  // as long as these are unchanged, so is the module
  bool is_named = false;
};

// The autograd nodes that the drain assumes were created with one and the same stack: all from the
// last one reported to it up to this end.
struct NotedNodes {
  std::uint64_t end = 0;
  std::uint32_t thread = 0;  // torch's number for this thread; 0: not asked yet
  std::uint32_t epoch = 0;
  bool is_open = false;  // the stack is still the same
  bool is_bare = false;  // there is no stack at all
};

struct alignas(64) ThreadSlot {
  std::uint16_t number = 0;
  std::uint16_t tag = 0;
  bool is_mirrored = false;  // the drain knows the cached stack
  bool was_used = false;
  std::uint64_t destroyed_seen = 0;  // destroyed of code objects when the stack was taken
  std::uint64_t last_freed = 0;      // address of the last free_requested
  NodeKey running;                   // the autograd node that the thread runs
  NodeKey reported_running;          // as the drain knows it
  NotedNodes noted;
  std::uintptr_t kept_state = 0;  // the thread's state in Python; FrameWalker::find_state()
  CachedStack cached_stack;
  FoundFrames found;
  std::array<std::uint64_t, kMaxDepth> quick_hashes;  // outermost first
  std::array<KnownCode, kCodeSlots> codes;
  std::array<KnownModule, kModuleSlots> modules;
  std::array<char, 2 * CodeReader::kTextBytes> text;
  NativeStack native;
};

class ThreadSlots {
 public:
  ThreadSlots();
  ThreadSlots(const ThreadSlots&) = delete;
  ThreadSlots& operator=(const ThreadSlots&) = delete;
  ~ThreadSlots();

  // The calling thread's slot; nullptr when all are taken.
  ThreadSlot* mine() {
    const std::uintptr_t thread = this_thread();
    const ThreadEntry& entry = entry_of(thread);
    if (entry.thread.load(std::memory_order_relaxed) == thread) [[likely]]
      return entry.slot;
    return find_or_claim();
  }

 private:
  // Where a thread finds its slot without asking the loader for its thread-local variables, which
  // costs more than most of what follows. A thread takes its entry if it is free, and leaves it
  // when it ends; only the thread itself ever looks at the slot.
  struct ThreadEntry {
    std::atomic<std::uintptr_t> thread{0};
    ThreadSlot* slot = nullptr;
  };
  static constexpr unsigned kEntryBits = 10;

  friend struct ThreadClaim;

  static std::uintptr_t this_thread() {
#if defined(__x86_64__)
    std::uintptr_t pointer = 0;
    asm("mov %%fs:0, %0" : "=r"(pointer));
    return pointer;
#else
    return static_cast<std::uintptr_t>(::pthread_self());
#endif
  }
  ThreadEntry& entry_of(std::uintptr_t thread) {
    return entries_[(thread * 0x9E3779B97F4A7C15ULL) >> (64 - kEntryBits)];
  }
  ThreadSlot* find_or_claim();
  ThreadSlot* claim();
  // The memory of the slot; nullptr if the address space is exhausted.
  ThreadSlot* slot_at(std::size_t number);
  void release(ThreadSlot& slot);

  // Programs have a few threads, and each slot takes a quarter of a megabyte.
  static constexpr std::size_t kSlotsInGroup = 8;
  std::array<std::atomic<ThreadSlot*>, kMaxThreads / kSlotsInGroup> groups_{};
  std::array<std::atomic<bool>, kMaxThreads> is_taken_{};
  std::array<ThreadEntry, std::size_t{1} << kEntryBits> entries_{};
};

}  // namespace gpumemprof::capture
