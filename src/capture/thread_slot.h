// ThreadSlot: what the recorder remembers of one thread: its last stack and the code objects it has
// described.
//
// The drain keeps a mirror of every slot, fed through the ring. A slot outlives its thread and
// serves the next one, so mirror and slot never disagree. Owned by the thread that claimed it; the
// pool is shared.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>

#include "capture/frame_walker.h"
#include "capture/record.h"

namespace gpumemprof::capture {

inline constexpr std::size_t kMaxThreads = 512;  // at once; more get events without stacks
inline constexpr std::size_t kCodeSlots =
    4096;  // code objects a thread remembers; others are described again

// A code object the drain knows by this slot's number.
struct KnownCode {
  std::uintptr_t code = 0;
  std::uint64_t fingerprint = 0;
  std::uint64_t witness = 0;  // as long as this is the same, so is the code
};

struct ThreadSlot {
  std::uint16_t number = 0;
  std::uint16_t tag = 0;
  bool is_mirrored = false;  // the drain knows the last stack
  std::size_t depth = 0;
  std::uint64_t deaths_seen = 0;  // of code objects, when the last stack was taken
  std::uint64_t last_freed = 0;   // address of the last free_requested
  NodeKey running_node;           // as the drain knows it
  FrameKey* frames = nullptr;     // the last stack, innermost first
  FrameKey* scratch = nullptr;
  std::array<FrameKey, 2 * kMaxDepth> both_stacks;
  std::array<std::uint64_t, kMaxDepth> glances;
  Trail* trail = nullptr;  // of the last stack
  Trail* spare_trail = nullptr;
  std::array<Trail, 2> both_trails;
  std::array<KnownCode, kCodeSlots> codes;
  std::array<char, 2 * FrameWalker::kTextBytes> text;
};

class ThreadSlots {
 public:
  ThreadSlots();
  ThreadSlots(const ThreadSlots&) = delete;
  ThreadSlots& operator=(const ThreadSlots&) = delete;
  ~ThreadSlots();

  // The calling thread's slot; nullptr when all are taken.
  ThreadSlot* mine();

 private:
  ThreadSlot* claim();

  ThreadSlot* slots_ = nullptr;
  std::array<std::atomic<bool>, kMaxThreads> is_taken_{};
};

}  // namespace gpumemprof::capture
