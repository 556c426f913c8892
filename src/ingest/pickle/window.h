// Window: a sliding view of a ByteSource, so that the machine reads opcodes from plain memory.
//
// The last byte is always followed by kPadding readable zero bytes; an operand may be loaded before
// it is known to be complete.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "base/byte_source.h"

namespace gpumemprof::pickle {

class Window {
 public:
  static constexpr std::size_t kPadding = 64;
  static constexpr std::size_t kCapacity = std::size_t{256} << 10;

  explicit Window(ByteSource& source);

  [[nodiscard]] const std::uint8_t* begin() const { return buffer_.data() + begin_; }
  [[nodiscard]] const std::uint8_t* end() const { return buffer_.data() + end_; }
  [[nodiscard]] bool at_end_of_source() const { return at_end_; }

  // Drops everything before `position` and reads on until at least `wanted` bytes are available or
  // the source ends. Grows no faster than bytes actually arrive. Invalidates every pointer into the
  // window.
  Status advance(const std::uint8_t* position, std::size_t wanted);

  // The offset of `position` from the start of the source.
  [[nodiscard]] std::uint64_t offset_of(const std::uint8_t* position) const {
    return begin_offset_ + static_cast<std::uint64_t>(position - begin());
  }

 private:
  ByteSource& source_;
  std::vector<std::uint8_t> buffer_;
  std::size_t begin_ = 0;
  std::size_t end_ = 0;
  std::uint64_t begin_offset_ = 0;
  bool at_end_ = false;
};

}  // namespace gpumemprof::pickle
