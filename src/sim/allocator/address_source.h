// Where new segments are placed. Addresses decide ties between blocks of equal size, so a run that
// follows a recording takes them from it; a what-if run invents them.
#pragma once

#include <cstdint>

#include "base/bytes.h"

namespace gpumemprof::sim {

class AddressSource {
 public:
  AddressSource() = default;
  AddressSource(const AddressSource&) = delete;
  AddressSource& operator=(const AddressSource&) = delete;
  virtual ~AddressSource() = default;

  virtual std::uint64_t place_segment(std::uint64_t size_bytes) = 0;
  // An address range of size_bytes for an expandable segment.
  virtual std::uint64_t place_range(std::uint64_t size_bytes) = 0;
  // A segment was returned to the device; who invents addresses may use its place again.
  virtual void return_segment(std::uint64_t) {}
};

// Places every new segment above all earlier ones.
class RisingAddresses final : public AddressSource {
 public:
  std::uint64_t place_segment(std::uint64_t size_bytes) override { return take(size_bytes); }
  std::uint64_t place_range(std::uint64_t size_bytes) override { return take(size_bytes); }

 private:
  static constexpr std::uint64_t kAlignment = 2 * kMiB;

  std::uint64_t take(std::uint64_t size_bytes) {
    const std::uint64_t address = next_;
    next_ += (size_bytes + kAlignment - 1) / kAlignment * kAlignment;
    return address;
  }

  std::uint64_t next_ = 0x7000'0000'0000;
};

}  // namespace gpumemprof::sim
