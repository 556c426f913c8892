#include "event/allocator_settings.h"

#include <algorithm>
#include <bit>

#include "event/rules/plausible.h"

namespace gpumemprof {
namespace {

constexpr std::uint64_t kLeastLargeSegmentBytes = 10 * kMiB;  // torch accepts nothing smaller

}  // namespace

void AllocatorSettings::settle() {
  if (large_segment_bytes < kLeastLargeSegmentBytes || large_segment_bytes > kMostSize)
    large_segment_bytes = AllocatorSettings{}.large_segment_bytes;
  const bool is_share = garbage_collection_threshold > 0 && garbage_collection_threshold < 1;
  if (!is_share) garbage_collection_threshold = 0;
  has_roundup_ = std::any_of(roundup_divisions.begin(), roundup_divisions.end(),
                             [](std::uint64_t divisions) { return divisions > 1; });
}

std::uint64_t AllocatorSettings::round_by_divisions(std::uint64_t requested_bytes) const {
  const auto log2 = static_cast<std::size_t>(std::bit_width(requested_bytes) - 1);
  const std::size_t slot = std::clamp<std::size_t>(log2, 20, 20 + kRoundupSlots - 1) - 20;
  const std::uint64_t divisions = roundup_divisions[slot];
  if (divisions <= 1 || requested_bytes <= kMinBlockBytes * divisions) {
    return round_up_to_block(requested_bytes);
  }
  const std::uint64_t floor = std::uint64_t{1} << log2;
  if (requested_bytes == floor) return requested_bytes;
  const std::uint64_t step = floor / divisions;
  if (step == 0) return floor << 1;
  return (requested_bytes + step - 1) / step * step;
}

}  // namespace gpumemprof
