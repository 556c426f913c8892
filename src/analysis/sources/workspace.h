// The scratch memory that torch gives cuBLAS and cuBLASLt by default: recognized by its size, since
// no stack leads to it.
#pragma once

#include <cstdint>

#include "base/bytes.h"

namespace gpumemprof {

constexpr bool is_cublas_workspace(std::uint64_t bytes) {
  constexpr std::uint64_t kBeforeHopper = 2 * (4 * kMiB) + 8 * (16 * kKiB);
  constexpr std::uint64_t kFromHopperOn = 32 * kMiB;
  return bytes == kBeforeHopper || bytes == kFromHopperOn;
}

constexpr bool is_cublaslt_workspace(std::uint64_t bytes) { return bytes == kMiB; }

constexpr bool is_usual_workspace(std::uint64_t bytes) {
  return is_cublas_workspace(bytes) || is_cublaslt_workspace(bytes);
}

// One for each of two streams.
inline constexpr std::uint32_t kUsualWorkspaces = 2;

}  // namespace gpumemprof
