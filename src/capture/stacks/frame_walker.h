// Reads the running thread's own interpreter frames, raw: no GIL, no reference counts, no
// allocation. Only the thread itself changes its frames, and a running frame keeps its code alive.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <optional>

#include "capture/stacks/cached_stack.h"
#include "capture/stacks/code_reader.h"

namespace gpumemprof::capture {

// Room for the frames a walk finds before it reaches those of the last walk.
using FoundFrames = std::array<FoundFrame, CachedStack::kMaxSteps>;

class FrameWalker {
 public:
  explicit FrameWalker(const PythonLayout& layout);

  [[nodiscard]] const CodeReader& codes() const { return codes_; }

  // Reads the thread's state from this key (python_layout.h) instead of asking Python; none: asks
  // Python.
  void set_thread_key(std::optional<pthread_key_t> key) {
    thread_key_.store(key ? static_cast<int>(*key) : kNoKey, std::memory_order_relaxed);
  }
  // The code of a module's call, torch.nn.Module.__call__: its frames hold their module. 0: none
  // does. The code must live as long as the process.
  void set_module_code(std::uintptr_t code) { module_code_.store(code, std::memory_order_relaxed); }
  [[nodiscard]] AskThreadState asker() const { return ask_; }
  [[nodiscard]] void* thread_state() const {
    const int key = thread_key_.load(std::memory_order_relaxed);
    return key == kNoKey ? ask_() : ::pthread_getspecific(static_cast<pthread_key_t>(key));
  }

  // The state of this thread; 0 for a thread Python does not know. `kept_state` belongs to the
  // thread and is 0 at first; it holds the state once that is known not to move.
  std::uintptr_t find_state(std::uintptr_t& kept_state) const;
  enum class Comparison : std::uint8_t {
    same,
    moved,  // except for the innermost frame, which is at another instruction
    other,  // or walk() must find out
  };
  // Compares the frames with those of the last walk, one by one.
  [[nodiscard]] Comparison compare(std::uintptr_t state, const CachedStack& cached) const;
  // Updates the cached stack where compare() returned `moved`.
  static void move_along(CachedStack& cached);
  // Walks the frames of this thread until they meet those of the cached stack, and updates it. If
  // there are no frames, it is left unchanged.
  Walk walk(std::uintptr_t state, CachedStack& cached, FoundFrames& scratch) const;

  [[nodiscard]] std::uint32_t instruction_offset(const FrameKey& key) const {
    if (shape_ == Shape::frame_objects) return static_cast<std::uint32_t>(key.instruction);
    return static_cast<std::uint32_t>(key.instruction - (key.code + first_instruction_));
  }

 private:
  enum class Shape : std::uint8_t { common, any, frame_objects };
  static constexpr int kNoKey = -1;

  [[nodiscard]] std::uintptr_t innermost_of(std::uintptr_t state) const;
  Walk walk_frame_objects(std::uintptr_t frame, CachedStack& cached, FoundFrames& scratch) const;
  [[nodiscard]] std::uintptr_t module_code() const {
    return module_code_.load(std::memory_order_relaxed);
  }

  // What every event needs comes first, so that it is stored together.
  std::uintptr_t runtime_begin_;
  std::uintptr_t runtime_end_;
  AskThreadState ask_;
  std::atomic<int> thread_key_{kNoKey};
  std::uint16_t thread_frame_;
  std::uint16_t cframe_frame_;
  std::uint16_t first_instruction_;
  bool has_cframe_;
  Shape shape_;
  std::atomic<std::uintptr_t> module_code_{0};
  CodeReader codes_;
};

}  // namespace gpumemprof::capture
