// Reads the running thread's own interpreter frames and the texts of their code, raw: no GIL, no
// reference counts, no allocation. Only the thread itself changes its frames, and a running frame
// keeps its code alive.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string_view>

#include "capture/python_layout.h"

namespace gpumemprof::capture {

// A frame while it runs: enough to tell it from any other as long as both live.
struct FrameKey {
  std::uintptr_t code = 0;
  std::uintptr_t instruction = 0;
  bool operator==(const FrameKey&) const = default;
};

inline constexpr std::size_t kMaxDepth = 512;  // deeper stacks keep their innermost frames

// The texts of a code object. The views point into Python's memory, or into the buffer given.
struct CodeText {
  std::string_view name;
  std::string_view file;
  std::string_view line_table;
  std::uint32_t first_line = 0;
};

// Where the frames of the last walk lay, bridges between C and Python included, innermost first.
// The next walk looks at these places first, without waiting for one frame to tell where the next
// one is: almost always it is the same stack again, or becomes the same further out.
struct Trail {
  struct Step {
    std::uintptr_t frame = 0;
    std::uintptr_t instruction = 0;
  };
  static constexpr std::uint16_t kBridge = 0xFFFF;
  std::size_t count = 0;    // 0: not known
  std::uintptr_t code = 0;  // of the innermost
  std::array<Step, 2 * kMaxDepth> steps;
  // How many frames with code there are from here outwards; kBridge: this one has none.
  std::array<std::uint16_t, 2 * kMaxDepth> outward;
};

struct Walk {
  std::size_t count = 0;
  std::size_t kept = 0;    // of them, from the outermost on, are those of the last walk
  bool is_same = false;    // all are, and there are no more and no fewer
  bool has_moved = false;  // all but the innermost are, which is at another instruction
};

class FrameWalker {
 public:
  explicit FrameWalker(const PythonLayout& layout) : layout_(layout) {}

  [[nodiscard]] const PythonLayout& layout() const { return layout_; }

  // Innermost first, and compared with `last` on the way. No frames for a thread Python does not
  // know. Where they are the same, or have only moved, no more than the innermost need be written.
  // `trail` is that of the walk that made `last`, and of this one afterwards; `spare` is room for
  // one.
  Walk walk(FrameKey* frames, const FrameKey* last, std::size_t last_count, Trail*& trail,
            Trail*& spare) const;

  [[nodiscard]] std::uint32_t instruction_offset(const FrameKey& key) const {
    if (layout_.has_frame_objects) return static_cast<std::uint32_t>(key.instruction);
    return static_cast<std::uint32_t>(key.instruction - (key.code + layout_.first_instruction));
  }

  // A mixture of the contents of a code object's texts: another function at the same address has
  // another.
  [[nodiscard]] std::uint64_t fingerprint(std::uintptr_t code) const;
  // A cheaper one, for every frame of every event where Python does not tell that a code object
  // died.
  [[nodiscard]] std::uint64_t glance(std::uintptr_t code) const;

  static constexpr std::size_t kTextBytes = 2048;
  // false: this is no code object. Texts are cut at kTextBytes each; `buffer` takes what is not
  // plain ASCII.
  bool read_code(std::uintptr_t code, CodeText& text, std::span<char, 2 * kTextBytes> buffer) const;

 private:
  [[nodiscard]] std::uintptr_t running_frame() const;
  Walk walk_frame_objects(FrameKey* frames, const FrameKey* last, std::size_t last_count) const;

  // The bytes of a text object as they lie in memory.
  [[nodiscard]] std::string_view raw_text(std::uintptr_t text) const;
  [[nodiscard]] std::string_view utf8(std::uintptr_t text, std::span<char> buffer) const;

  PythonLayout layout_;
};

}  // namespace gpumemprof::capture
