// UnwindRule: how to get from a frame of native code to its caller, at one return address.
//
// On x86-64, compilers describe the caller's frame by the stack pointer or by rbp, and leave the
// return address right below it. What is described in another way is `unknown`: the stack ends
// there. A rule is one word, so that it can be kept in a table that threads share without a lock.
#pragma once

#include <cstdint>

namespace gpumemprof::capture {

struct UnwindRule {
  enum class Frame : std::uint8_t {
    unknown,
    outermost,     // there is no caller: the code that starts a thread or a program
    from_sp,       // the caller's stack pointer is sp + frame_offset
    from_bp,       // bp + frame_offset
    stored_at_bp,  // what is stored at bp + frame_offset: a function that aligned its stack
  };
  enum class Bp : std::uint8_t {
    same,          // the caller's bp is still there
    saved,         // at the caller's stack pointer + bp_offset
    stored_at_bp,  // at bp + bp_offset
    lost,
  };

  Frame frame = Frame::unknown;
  Bp bp = Bp::same;
  std::int32_t frame_offset = 0;
  std::int32_t bp_offset = 0;  // 24 bits

  bool operator==(const UnwindRule&) const = default;

  static constexpr bool fits(std::int64_t bp_offset) {
    return bp_offset >= -kMostBpOffset && bp_offset < kMostBpOffset;
  }
  [[nodiscard]] std::uint64_t packed() const {
    return static_cast<std::uint32_t>(frame_offset) |
           (static_cast<std::uint64_t>(static_cast<std::uint32_t>(bp_offset) & kBpOffsetMask)
            << 32U) |
           (static_cast<std::uint64_t>(frame) << 56U) | (static_cast<std::uint64_t>(bp) << 60U);
  }
  static UnwindRule unpacked(std::uint64_t word) {
    UnwindRule rule;
    rule.frame_offset = static_cast<std::int32_t>(static_cast<std::uint32_t>(word));
    // Sign-extends the 24 bits.
    rule.bp_offset = static_cast<std::int32_t>(static_cast<std::uint32_t>(word >> 24U)) >> 8;
    rule.frame = static_cast<Frame>((word >> 56U) & 0xFU);
    rule.bp = static_cast<Bp>((word >> 60U) & 0xFU);
    return rule;
  }

 private:
  static constexpr std::int64_t kMostBpOffset = std::int64_t{1} << 23;
  static constexpr std::uint32_t kBpOffsetMask = 0xFF'FFFF;
};

}  // namespace gpumemprof::capture
