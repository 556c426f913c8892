// Memory that belongs to others (Python's objects, the loader's tables), known only by its address.
//
// The caller guarantees that the address is not null and that the object there is alive.
#pragma once

#include <cstdint>
#include <cstring>

namespace gpumemprof::capture {

template <typename T>
T* pointer_at(std::uintptr_t address) {
  // NOLINTNEXTLINE(performance-no-int-to-ptr): an address is all there is.
  return reinterpret_cast<T*>(address);
}

template <typename T>
T read_raw(std::uintptr_t address) {
  T value;
  // NOLINTNEXTLINE(clang-analyzer-core.NonNullParamChecker): walks end before they come to a null.
  std::memcpy(static_cast<void*>(&value), pointer_at<const void>(address), sizeof(T));
  return value;
}

}  // namespace gpumemprof::capture
