// SourceFrame: what an address of native code is called in the source.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

namespace gpumemprof {

// A recording may name any file, and a forged file has symbols and paths without end: one that is
// longer is not read, and what is shown of a name ends.
inline constexpr std::size_t kMostSymbolBytes = std::size_t{64} << 10;
inline constexpr std::size_t kMostSourcePathBytes = std::size_t{4} << 10;
inline constexpr std::size_t kMostShownNameBytes = std::size_t{4} << 10;

struct SourceFrame {
  std::string name;        // of the function, as C++ writes it
  std::string file;        // the source file, or the module if that is not known
  std::uint32_t line = 0;  // 0: not known
  bool operator==(const SourceFrame&) const = default;
};

}  // namespace gpumemprof
