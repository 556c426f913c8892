// What differs between the allocators of torch 2.4 to 2.13, and the sizes that do not differ.
//
// Every version difference of the simulator is a field here; no other file in this folder checks
// the version.
#pragma once

#include <cstdint>
#include <limits>

#include "base/bytes.h"
#include "event/alloc_conf.h"
#include "event/allocator_settings.h"

namespace gpumemprof::sim {

inline constexpr std::uint64_t kMinLargeSegmentBytes =
    10 * kMiB;  // smaller requests share a large_segment
inline constexpr std::uint64_t kSegmentRoundingBytes = 2 * kMiB;
inline constexpr std::uint64_t kSmallPageBytes =
    2 * kMiB;  // of expandable segments; large ones: large_segment_bytes
inline constexpr std::uint64_t kNoLimit = std::numeric_limits<std::uint64_t>::max();
// Larger requests fail without being tried: no device has that much, and offsets stay within 31
// bits of 512-byte units.
inline constexpr std::uint64_t kMaxRequestBytes = 1ULL << 39;

// Among free blocks of equal size, which one is taken.
enum class TieBreak : std::uint8_t {
  lowest_address,
  oldest_segment,  // the segment created first, then the lowest address
};

struct AllocatorRules {
  TieBreak tie_break = TieBreak::lowest_address;
  bool private_pools_expand = true;  // expandable segments serve private pools too
  bool full_fraction_is_no_limit =
      true;  // a memory fraction of 1.0 lifts the limit (and with it garbage collection)
  bool limit_is_rounded = false;  // fraction × total is rounded, not truncated
  bool user_pools_flush =
      false;  // a request in a user's pool may empty the cache when memory runs out
};

AllocatorRules rules_for(TorchVersion version);

// How much memory there is. The two limits are checked differently: the process's own limit before
// the driver is called, and with the size of a whole segment even where only a page is missing; the
// device's by the driver itself.
struct MemoryLimit {
  std::uint64_t allowed_bytes = kNoLimit;
  std::uint64_t device_bytes = kNoLimit;
  bool operator==(const MemoryLimit&) const = default;
};

MemoryLimit limit_of_fraction(double fraction, std::uint64_t device_total_bytes,
                              const AllocatorRules& rules);

// The segment a rounded request is given when no cached block fits.
inline std::uint64_t segment_bytes_for(std::uint64_t block_bytes,
                                       const AllocatorSettings& settings) {
  if (block_bytes <= kSmallPoolMaxBytes) return kSmallSegmentBytes;
  if (block_bytes < kMinLargeSegmentBytes) return settings.large_segment_bytes;
  return (block_bytes + kSegmentRoundingBytes - 1) / kSegmentRoundingBytes * kSegmentRoundingBytes;
}

}  // namespace gpumemprof::sim
