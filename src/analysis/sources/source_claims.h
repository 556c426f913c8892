// SourceClaims: which source the code that allocates is known for (MemorySourceInfo::
// allocating_code), if any.
#pragma once

#include <optional>
#include <string_view>
#include <vector>

#include "event/memory_source.h"
#include "store/store.h"

namespace gpumemprof {

// By a function in a file of the program or of a library.
std::optional<MemorySource> claimant_of(std::string_view file, std::string_view function);

class SourceClaims {
 public:
  // Inspects all frames once.
  explicit SourceClaims(const Store& store);

  [[nodiscard]] bool has_any() const { return has_any_; }
  // Decided by the innermost Python frame: what such code calls in turn, a module for instance,
  // allocates for itself.
  [[nodiscard]] std::optional<MemorySource> of(StackId stack) const { return stacks_[stack.index]; }

 private:
  std::vector<std::optional<MemorySource>> stacks_;  // empty: no frame is claimed
  bool has_any_ = false;
};

}  // namespace gpumemprof
