// DriverAddresses: where the CUDA driver places segments, as observed on one H200.
//
// A segment goes into the smallest remainder of an earlier range that has room for it; otherwise
// into a new range of whole 32 MiB below all earlier ones. The simulated allocator needs addresses
// only to choose between free blocks of equal size.
#pragma once

#include <cstdint>
#include <vector>

#include "sim/allocator/address_source.h"

namespace gpumemprof::estimate {

class DriverAddresses final : public sim::AddressSource {
 public:
  std::uint64_t place_segment(std::uint64_t size_bytes) override;
  std::uint64_t place_range(std::uint64_t size_bytes) override;

 private:
  struct Remainder {
    std::uint64_t address = 0;
    std::uint64_t size_bytes = 0;
  };
  std::uint64_t take_below(std::uint64_t size_bytes);

  std::vector<Remainder> remainders_;
  std::uint64_t lowest_ = 0x7F00'0000'0000;
};

}  // namespace gpumemprof::estimate
