// Stands in for CUDA's runtime.
#include <cstddef>

#pragma GCC visibility push(default)
extern "C" {
bool fake_is_full = false;  // NOLINT
int cudaMalloc(void** memory, std::size_t /*bytes*/) {
  *memory = nullptr;
  return fake_is_full ? 2 : 0;
}
}
#pragma GCC visibility pop
