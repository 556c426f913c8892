// Typed ids: an index that cannot be confused with another kind of index.
#pragma once

#include <compare>
#include <cstdint>
#include <limits>

namespace gpumemprof {

// A 32-bit row number with one value reserved for "none".
template <typename Tag>
struct Id {
  std::uint32_t index = kNone;

  static constexpr std::uint32_t kNone = std::numeric_limits<std::uint32_t>::max();

  constexpr Id() = default;
  constexpr explicit Id(std::size_t row) : index(static_cast<std::uint32_t>(row)) {}

  [[nodiscard]] constexpr bool is_none() const { return index == kNone; }
  constexpr auto operator<=>(const Id&) const = default;
};

using StringId = Id<struct StringTag>;
using FrameId = Id<struct FrameTag>;
using StackId = Id<struct StackTag>;
using AllocationId = Id<struct AllocationTag>;
using SegmentId = Id<struct SegmentTag>;

}  // namespace gpumemprof
