// Our changes to pickles as libFuzzer's mutator, taking turns with libFuzzer's own.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "mutator.h"

// libFuzzer provides the first and calls the second by these names.
extern "C" std::size_t LLVMFuzzerMutate(std::uint8_t* data, std::size_t size, std::size_t max_size);

extern "C" std::size_t LLVMFuzzerCustomMutator(std::uint8_t* data, std::size_t size,
                                               std::size_t max_size, unsigned seed) {
  using gpumemprof::fuzz::Bytes;
  if (seed % 2 == 0) return LLVMFuzzerMutate(data, size, max_size);
  const std::vector<Bytes> input = {Bytes(data, data + size)};
  const Bytes changed = gpumemprof::fuzz::Mutator(input, seed).next();
  const std::size_t kept = std::min(changed.size(), max_size);
  if (kept > 0) std::memcpy(data, changed.data(), kept);
  return kept;
}
