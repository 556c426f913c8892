// Maps an instruction to its line, for CPython's three line table formats.
#pragma once

#include <cstdint>
#include <string_view>

#include "capture/stacks/python_layout.h"

namespace gpumemprof::capture {

// `instruction` counts bytes from the start of the code. A damaged or truncated table gives the
// last line reached.
std::uint32_t line_of(LineTableFormat format, std::string_view table, std::uint32_t first_line,
                      std::uint32_t instruction);

}  // namespace gpumemprof::capture
