// The settings of PyTorch's caching allocator that determine sizes and placement, and the sizes
// they result in.
#pragma once

#include <array>
#include <cstdint>
#include <limits>

#include "base/bytes.h"

namespace gpumemprof {

// Sizes the allocator has used unchanged since torch 2.0.
inline constexpr std::uint64_t kMinBlockBytes = 512;  // rounding unit and smallest block
inline constexpr std::uint64_t kSmallPoolMaxBytes =
    kMiB;  // rounded requests up to this use the small pool
inline constexpr std::uint64_t kSmallSegmentBytes = 2 * kMiB;
inline constexpr std::uint64_t kNoSplitLimit = std::numeric_limits<std::uint64_t>::max();
inline constexpr std::size_t kRoundupSlots = 16;  // one for each power of two starting at 1 MiB

struct AllocatorSettings {
  std::uint64_t max_split_bytes = kNoSplitLimit;
  std::uint64_t max_non_split_rounding_bytes = 20 * kMiB;
  std::uint64_t large_segment_bytes = 20 * kMiB;
  double garbage_collection_threshold = 0;
  bool expandable_segments = false;
  bool throw_on_device_oom = false;  // torch 2.12: no retry above the memory limit
  // Divisions between two powers of two; 0 and 1 mean plain rounding to 512 bytes.
  std::array<std::uint64_t, kRoundupSlots> roundup_divisions{};

  bool operator==(const AllocatorSettings&) const = default;

  // The block size for a request.
  [[nodiscard]] std::uint64_t round_size(std::uint64_t requested_bytes) const {
    if (requested_bytes < kMinBlockBytes) return kMinBlockBytes;
    if (has_roundup_) [[unlikely]]
      return round_by_divisions(requested_bytes);
    return round_up_to_block(requested_bytes);
  }

  // Call after a member changed. Values torch would not accept, as in a forged file, become torch's
  // defaults.
  void settle();

 private:
  static constexpr std::uint64_t round_up_to_block(std::uint64_t bytes) {
    return (bytes + kMinBlockBytes - 1) & ~(kMinBlockBytes - 1);
  }
  [[nodiscard]] std::uint64_t round_by_divisions(std::uint64_t requested_bytes) const;

  bool has_roundup_ = false;
};

}  // namespace gpumemprof
