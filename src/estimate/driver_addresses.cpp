#include "estimate/driver_addresses.h"

#include <algorithm>

#include "base/bytes.h"

namespace gpumemprof::estimate {
namespace {

constexpr std::uint64_t kSegmentAlignment = 2 * kMiB;
constexpr std::uint64_t kRangeAlignment = 32 * kMiB;

constexpr std::uint64_t round_up(std::uint64_t bytes, std::uint64_t unit) {
  return (bytes + unit - 1) / unit * unit;
}

}  // namespace

std::uint64_t DriverAddresses::take_below(std::uint64_t size_bytes) {
  lowest_ -= size_bytes;
  return lowest_;
}

std::uint64_t DriverAddresses::place_segment(std::uint64_t size_bytes) {
  const std::uint64_t needed = round_up(size_bytes, kSegmentAlignment);
  auto best = remainders_.end();
  for (auto each = remainders_.begin(); each != remainders_.end(); ++each) {
    if (each->size_bytes < needed) continue;
    if (best == remainders_.end() || each->size_bytes < best->size_bytes ||
        (each->size_bytes == best->size_bytes && each->address < best->address))
      best = each;
  }
  if (best != remainders_.end()) {
    const std::uint64_t address = best->address;
    best->address += needed;
    best->size_bytes -= needed;
    if (best->size_bytes == 0) remainders_.erase(best);
    return address;
  }
  const std::uint64_t range = round_up(needed, kRangeAlignment);
  const std::uint64_t address = take_below(range);
  if (range > needed) remainders_.push_back({address + needed, range - needed});
  return address;
}

std::uint64_t DriverAddresses::place_range(std::uint64_t size_bytes) {
  return take_below(round_up(size_bytes, kRangeAlignment));
}

}  // namespace gpumemprof::estimate
