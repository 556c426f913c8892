// The split rule of torch's caching allocator: whether a request takes the whole free block that
// was chosen for it, or only the front, so that the rest stays free.
//
// The mode is a setting of the whole allocator at the moment of the request, not a property of the
// block: with expandable segments on, torch splits blocks of plain segments just as finely. The
// simulator knows the mode from the settings it is given. A recording states only the settings at
// its end, and a program may change them: there, a block that lies in an expandable segment also
// shows that the mode was on. (Since torch 2.10 the mode is off for pools with an allocator of
// their own, which no recording shows.)
#pragma once

#include "event/allocator_settings.h"

namespace gpumemprof {

enum class SegmentMode : std::uint8_t { plain, expandable };

// rounded_bytes: the request as AllocatorSettings::round_size gives it; at most block_bytes. Its
// size alone decides which half of the pool it is in, so the block is from the same half.
constexpr bool splits_block(const AllocatorSettings& settings, SegmentMode mode,
                            std::uint64_t rounded_bytes, std::uint64_t block_bytes) {
  const std::uint64_t rest_bytes = block_bytes - rounded_bytes;
  if (rounded_bytes <= kSmallPoolMaxBytes || mode == SegmentMode::expandable)
    return rest_bytes >= kMinBlockBytes;
  return rounded_bytes < settings.max_split_bytes && rest_bytes > kSmallPoolMaxBytes;
}

}  // namespace gpumemprof
