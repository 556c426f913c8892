// Flags that take a whole number.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "base/result.h"

namespace gpumemprof::cli {

struct NumberFlag {
  std::string name;  // "--top"
  std::uint64_t least = 0;
  std::uint64_t most = UINT64_MAX;
  std::string hint;  // what to type instead
};

// Nothing where the flag was not given.
Result<std::optional<std::uint64_t>> parse_number(const std::optional<std::string>& text,
                                                  const NumberFlag& flag);

}  // namespace gpumemprof::cli
