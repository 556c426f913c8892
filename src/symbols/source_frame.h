// SourceFrame: what an address of native code is called in the source.
#pragma once

#include <cstdint>
#include <string>

namespace gpumemprof {

struct SourceFrame {
  std::string name;        // of the function, as C++ writes it
  std::string file;        // the source file, or the module if that is not known
  std::uint32_t line = 0;  // 0: not known
  bool operator==(const SourceFrame&) const = default;
};

}  // namespace gpumemprof
