#include "sim/allocator/rules.h"

#include <cmath>

namespace gpumemprof::sim {

AllocatorRules rules_for(TorchVersion version) {
  AllocatorRules rules;
  // 2.12's release candidate ordered by a counter of blocks; that was reverted the day before the
  // release, so 2.12 uses the older rule. A recording of 2.12.0 itself has not been compared.
  if (version >= TorchVersion{2, 13}) rules.tie_break = TieBreak::oldest_segment;
  rules.private_pools_expand = version >= TorchVersion{2, 5};
  rules.full_fraction_is_no_limit = version >= TorchVersion{2, 10};
  rules.limit_is_rounded = version >= TorchVersion{2, 13};
  // Earlier, every active pool scope counted as a graph capture, and a capture never empties the
  // cache.
  rules.user_pools_flush = version >= TorchVersion{2, 13};
  return rules;
}

MemoryLimit limit_of_fraction(double fraction, std::uint64_t device_total_bytes,
                              const AllocatorRules& rules) {
  if (rules.full_fraction_is_no_limit && fraction >= 1.0) return {};
  const double bytes = fraction * static_cast<double>(device_total_bytes);
  // A damaged file may contain any value.
  constexpr double kMost = 9e18;
  if (!(bytes >= 0 && bytes < kMost)) return {};
  MemoryLimit limit;
  limit.allowed_bytes =
      static_cast<std::uint64_t>(rules.limit_is_rounded ? std::round(bytes) : bytes);
  return limit;
}

}  // namespace gpumemprof::sim
