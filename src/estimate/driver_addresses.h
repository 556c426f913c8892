// DriverAddresses: where the CUDA driver places segments: each below all earlier ones.
//
// The simulated allocator needs addresses only to choose between free blocks of equal size. On an
// H200 the driver also puts segments into gaps that its own memory and the process's mappings
// leave, which differ from run to run. Of the orders tried on 32 recorded programs without pools of
// their own, this one led to the recorded reserved bytes in all of them.
#pragma once

#include <cstdint>

#include "sim/allocator/address_source.h"

namespace gpumemprof::estimate {

class DriverAddresses final : public sim::AddressSource {
 public:
  std::uint64_t place_segment(std::uint64_t size_bytes) override { return take_below(size_bytes); }
  std::uint64_t place_range(std::uint64_t size_bytes) override { return take_below(size_bytes); }

 private:
  static constexpr std::uint64_t kAlignment = 2 * kMiB;

  std::uint64_t take_below(std::uint64_t size_bytes) {
    lowest_ -= (size_bytes + kAlignment - 1) / kAlignment * kAlignment;
    return lowest_;
  }

  std::uint64_t lowest_ = 0x7F00'0000'0000;
};

}  // namespace gpumemprof::estimate
