// Reads the names stored in a code object, raw: no GIL, no reference counts, no allocation. A
// running frame keeps its code alive.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "capture/stacks/python_layout.h"

namespace gpumemprof::capture {

// The strings of a code object. The views point into Python's memory, or into the given buffer.
struct CodeText {
  std::string_view name;
  std::string_view file;
  std::string_view line_table;
  std::uint32_t first_line = 0;
};

class CodeReader {
 public:
  explicit CodeReader(const PythonLayout& layout) : layout_(layout) {}

  [[nodiscard]] const PythonLayout& layout() const { return layout_; }

  // A hash of a code object's strings: another function at the same address has a different one.
  [[nodiscard]] std::uint64_t fingerprint(std::uintptr_t code) const;
  // A cheaper one, for every frame of every event when Python does not report that a code object
  // was destroyed.
  [[nodiscard]] std::uint64_t quick_hash(std::uintptr_t code) const;

  static constexpr std::size_t kTextBytes = 2048;
  // false: this is not a code object. Strings are cut at kTextBytes each; `buffer` receives what is
  // not plain ASCII.
  bool read_code(std::uintptr_t code, CodeText& text, std::span<char, 2 * kTextBytes> buffer) const;

  // The type of an object, and the name of a type, cut if it is longer than a name should be.
  [[nodiscard]] static std::uintptr_t type_of(std::uintptr_t object);
  [[nodiscard]] static std::string_view type_name(std::uintptr_t type);

 private:
  // The bytes of a string object as they are in memory.
  [[nodiscard]] std::string_view raw_text(std::uintptr_t text) const;
  [[nodiscard]] std::string_view utf8(std::uintptr_t text, std::span<char> buffer) const;

  PythonLayout layout_;
};

}  // namespace gpumemprof::capture
