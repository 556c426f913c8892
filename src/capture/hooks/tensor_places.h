// Where the storages of tensors and of their gradients are, read from torch's own objects.
//
// At each optimizer step the recorder needs to know which storages the parameters and gradients
// are. Asking torch through Python costs more than everything else a recording does in a step; the
// addresses are a few loads away. Where torch keeps them differs from version to version, so
// nothing is read until a layout has been validated on tensors whose storages torch reports.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "base/result.h"

namespace gpumemprof::capture {

// A tensor's Python object, and what torch reports about it.
struct ExpectedTensor {
  std::uintptr_t object = 0;
  std::uint64_t storage = 0;
  std::uint64_t gradient_storage = 0;  // 0: it has no gradient
};

// With a gradient and without; at least one of each. Fails if no known layout agrees.
Status validate_tensors(std::span<const ExpectedTensor> tensors);

// The addresses of one list of tensors, from one reading to the next.
class TensorPlaces {
 public:
  enum class Change : std::uint8_t {
    none,
    gradients_moved,  // the same tensors have one, all are plain, some are at other addresses
    other,            // ask torch: also if no layout is validated, or a gradient has no storage
  };
  // The tensors' Python objects, which must be alive and exactly of torch's own tensor type.
  Change read(std::span<const std::uintptr_t> tensors);
  // The next reading is treated as the first.
  void forget();
  // Of the tensors that have one, in the order of the tensors.
  [[nodiscard]] std::vector<std::uint64_t> gradients() const;
  [[nodiscard]] std::size_t gradient_count() const;

 private:
  struct Place {
    std::uint64_t storage = 0;
    std::uint64_t gradient = 0;  // 0: none
  };
  // torch's objects reached from one tensor; 0: none.
  struct Chain {
    std::uint64_t tensor = 0;
    std::uint64_t storage = 0;
    std::uint64_t meta = 0;
    std::uint64_t gradient = 0;  // a tensor
    std::uint64_t gradient_storage = 0;
  };
  void follow(std::span<const std::uintptr_t> tensors);

  std::vector<Chain> chains_;
  std::vector<Place> places_;
  std::vector<Place> before_;
  bool is_known_ = false;
};

}  // namespace gpumemprof::capture
