// HeapBound: the most heap memory that was in use at once while it lived.
//
// It counts by the hooks that the address sanitizer has; without the sanitizer it counts nothing.
#pragma once

#include <cstddef>

namespace gpumemprof::fuzz {

class HeapBound {
 public:
  HeapBound();
  HeapBound(const HeapBound&) = delete;
  HeapBound& operator=(const HeapBound&) = delete;

  [[nodiscard]] std::size_t most_bytes() const;
};

}  // namespace gpumemprof::fuzz
