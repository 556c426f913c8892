// CachedStack: a thread's last stack and where its frames were, so that the next walk only has to
// check that they are still there.
//
// Outermost first: callers that stay keep their place, and only what differs is written.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "capture/foreign_memory.h"

namespace gpumemprof::capture {

inline constexpr std::size_t kMaxDepth = 512;  // deeper stacks keep their innermost frames

// Identifies a frame while it runs.
struct FrameKey {
  std::uintptr_t code = 0;  // 0: a bridge between C and Python, which is not a frame of the program
  std::uintptr_t instruction = 0;
  std::uintptr_t module = 0;  // for the frame of a module's call: the module; otherwise 0
  bool operator==(const FrameKey&) const = default;
};

// A frame that a walk found.
struct FoundFrame {
  std::uintptr_t frame = 0;
  FrameKey key;
};

// What a walk found, compared with the one before. Counts are of frames, excluding bridges.
struct Walk {
  std::size_t count = 0;
  std::size_t kept = 0;    // of these, from the outermost on, are those of the last walk
  std::size_t fresh = 0;   // index of the first step after those
  bool is_same = false;    // all frames are those of the last walk
  bool has_moved = false;  // all but the innermost, which is at another instruction
};

class CachedStack {
 public:
  static constexpr std::size_t kMaxSteps = 2 * kMaxDepth;
  // Only what the next comparison needs: it is read at every event.
  struct Step {
    std::uintptr_t frame = 0;
    std::uintptr_t instruction = 0;
  };
  struct Code {
    std::uintptr_t address = 0;  // as in FrameKey
    std::size_t depth = 0;       // frames up to and including this one
    std::uintptr_t module = 0;   // as in FrameKey
  };
  // Where a frame of a module's call keeps its module: the frames of two successive calls differ in
  // nothing else.
  struct ModulePlace {
    std::uintptr_t place = 0;
    std::uintptr_t raw = 0;  // what was there
    std::size_t step = 0;
  };

  [[nodiscard]] std::size_t size() const { return size_; }
  [[nodiscard]] std::size_t depth() const { return depth_; }
  [[nodiscard]] std::size_t depth_at(std::size_t index) const { return codes_[index].depth; }
  [[nodiscard]] const Step& step(std::size_t index) const { return steps()[index]; }
  // An empty step precedes the first one; it is where the outermost frame leads.
  [[nodiscard]] const Step* steps() const { return steps_.data() + 1; }
  [[nodiscard]] bool is_bridge(std::size_t index) const { return codes_[index].address == 0; }
  [[nodiscard]] FrameKey key(std::size_t index) const {
    return {codes_[index].address, step(index).instruction, codes_[index].module};
  }
  [[nodiscard]] FrameKey innermost() const { return size_ == 0 ? FrameKey() : key(size_ - 1); }
  [[nodiscard]] std::uintptr_t innermost_code() const { return innermost_code_; }
  // Whether the calls are still of the same modules. Every frame must be known to be still there.
  [[nodiscard]] bool has_same_modules() const {
    for (const ModulePlace* at = modules_.data(); at != modules_.data() + module_count_; ++at) {
      if (read_raw<std::uintptr_t>(at->place) != at->raw) return false;
    }
    return true;
  }
  // The outermost of the first `steps` whose module is a different one; `steps`: none is.
  [[nodiscard]] std::size_t first_other_module(std::size_t steps) const;
  void move_innermost(std::uintptr_t instruction) { steps_[size_].instruction = instruction; }

  // Replaces everything after the first `steps` with what was found, innermost first; there must be
  // room. A frame's locals are `locals` bytes into it.
  Walk replace(std::size_t steps, const FoundFrame* found, std::size_t count, std::size_t locals);

 private:
  // How many of the found frames have the same content as those stored here.
  [[nodiscard]] std::size_t agreeing(std::size_t steps, const FoundFrame* found,
                                     std::size_t count) const;
  [[nodiscard]] std::size_t next_frame(std::size_t index) const {
    while (index < size_ && is_bridge(index)) ++index;
    return index;
  }

  std::size_t size_ = 0;
  std::size_t depth_ = 0;
  std::uintptr_t innermost_code_ = 0;  // a copy, next to what every event needs
  std::size_t module_count_ = 0;
  std::array<Step, kMaxSteps + 1> steps_;
  std::array<ModulePlace, kMaxSteps> modules_;  // outermost first
  std::array<Code, kMaxSteps> codes_;
};

}  // namespace gpumemprof::capture
