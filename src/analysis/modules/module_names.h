// ModuleNames: which of the program's modules a stack leads to, if the recording describes them.
//
// A stack shows which forward() called which, by file and line; the description of the modules says
// which modules have that forward(), and paths say which are inside which. Layers of one kind run
// the same lines, so they share a name in which the parts that differ are "*".
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "store/store.h"

namespace gpumemprof {

class ModuleNames {
 public:
  explicit ModuleNames(const Store& store);

  [[nodiscard]] bool empty() const { return modules_.empty(); }

  // The modules, by row of store.modules(), that a frame may belong to when it was called from one
  // of these; all that have its forward() if `callers` is empty. Empty if none matches.
  [[nodiscard]] std::vector<std::uint32_t> inside(const std::vector<std::uint32_t>& callers,
                                                  FrameId frame) const;
  // "transformer.h.*.mlp"; the class for a root.
  [[nodiscard]] std::string name_of(const std::vector<std::uint32_t>& modules) const;

 private:
  // A forward(): modules_ rows [first, end), which are sorted by file and line.
  struct Function {
    StringId file;
    std::uint32_t line = 0;
    std::uint32_t last_line = 0;
    std::size_t first = 0;
    std::size_t end = 0;
  };
  [[nodiscard]] const Function* function_of(const Frame& frame) const;

  const Store& store_;
  std::vector<std::uint32_t> modules_;  // rows of store.modules()
  std::vector<Function> functions_;
};

}  // namespace gpumemprof
