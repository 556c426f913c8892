// HeapBound: the peak heap memory in use during its lifetime.
//
// It counts through AddressSanitizer's hooks; without the sanitizer it counts nothing.
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
