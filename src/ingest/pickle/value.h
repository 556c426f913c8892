// Value: one unpickled object in eight bytes: a tag and 56 bits that hold it or its location.
//
// Besides Python's own types there are records: rows of our own columns that a RecordBuilder made
// from a dict, so that a snapshot of millions of events never exists as millions of dicts.
#pragma once

#include <cstdint>

namespace gpumemprof::pickle {

enum class Tag : std::uint8_t {
  absent,  // no value: an unused memo entry, a missing field
  none,    // None
  boolean,
  integer,       // 56-bit signed, held inline
  wide_integer,  // row of Heap::wide_integers
  real,          // row of Heap::reals
  text,          // StringId
  opaque,        // bytes, sets and other values that no snapshot field needs
  int_pair,      // a tuple of two small non-negative integers, held inline
  tuple,         // row of Heap's tuples
  list,          // row of Heap's lists
  dict,          // row of Heap's dicts
  frame,         // FrameId
  stack,         // StackId: a list of frames
  event,         // row of the builder's events
  block,         // row of the builder's blocks
  segment,       // row of the builder's segments
  // What a list or dict is made of; only in Heap's slots:
  general_list,
  record_list,
  general_dict,
};

class Value {
 public:
  constexpr Value() = default;
  constexpr Value(Tag tag, std::uint64_t payload)
      : bits_((std::uint64_t{static_cast<std::uint8_t>(tag)} << kTagShift) |
              (payload & kPayloadMask)) {}

  static constexpr bool fits_inline(std::int64_t number) {
    return number >= -(std::int64_t{1} << 55) && number < (std::int64_t{1} << 55);
  }
  static constexpr Value integer(std::int64_t number) {
    return {Tag::integer, static_cast<std::uint64_t>(number)};
  }

  [[nodiscard]] constexpr Tag tag() const { return static_cast<Tag>(bits_ >> kTagShift); }
  [[nodiscard]] constexpr bool is(Tag tag) const { return this->tag() == tag; }
  [[nodiscard]] constexpr std::uint64_t payload() const { return bits_ & kPayloadMask; }
  [[nodiscard]] constexpr std::uint32_t row() const { return static_cast<std::uint32_t>(bits_); }
  // The inline integer, sign-extended.
  [[nodiscard]] constexpr std::int64_t number() const {
    return static_cast<std::int64_t>(bits_ << (64 - kTagShift)) >> (64 - kTagShift);
  }

 private:
  static constexpr unsigned kTagShift = 56;
  static constexpr std::uint64_t kPayloadMask = (std::uint64_t{1} << kTagShift) - 1;
  std::uint64_t bits_ = 0;
};

static_assert(sizeof(Value) == 8);

constexpr bool is_record(Tag tag) {
  return tag == Tag::event || tag == Tag::block || tag == Tag::segment;
}

}  // namespace gpumemprof::pickle
