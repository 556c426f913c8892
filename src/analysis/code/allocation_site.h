// The site of an allocation: the line of user code that made it.
#pragma once

#include <cstdint>
#include <vector>

#include "analysis/code/whence.h"

namespace gpumemprof {

struct AllocationSite {
  StackId stack;             // that ends at the line; none: no stack was recorded
  bool is_backward = false;  // the backward of the line made it

  [[nodiscard]] std::uint64_t key() const {
    return std::uint64_t{stack.index} << 1U | (is_backward ? 1U : 0U);
  }
  [[nodiscard]] static AllocationSite of_key(std::uint64_t key) {
    return {StackId(static_cast<std::uint32_t>(key >> 1U)), (key & 1U) != 0};
  }
};

// Finds the sites of allocations; the store must outlive it.
class AllocationSites {
 public:
  explicit AllocationSites(const Store& store) : store_(store) {}
  [[nodiscard]] AllocationSite of(Whence from);
  [[nodiscard]] AllocationSite of(const DeviceRecord& record, std::size_t row) {
    return of(whence(record, row));
  }

 private:
  const Store& store_;
  std::vector<std::uint32_t> line_of_;  // by stack; kUnknownLine: not looked up yet
};

}  // namespace gpumemprof
