// Flags that take a size, such as 24GiB.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/result.h"

namespace gpumemprof::cli {

// "30": probably not bytes.
bool is_unit_forgotten(std::string_view text, std::uint64_t bytes);

// `flag` is its name, for the Error where the text is not a size above 0.
Result<std::uint64_t> parse_size(const std::string& text, const std::string& flag);

}  // namespace gpumemprof::cli
