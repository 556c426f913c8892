// Which recordings are too long to be held in memory as a whole.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "windows/device_pass.h"

namespace gpumemprof {

// For tests: windows of this many events, whatever the size of the file.
std::optional<std::uint32_t> forced_window();

// How a long recording is read; none: it is short, or no .gmp file.
std::optional<WindowSizes> window_sizes(const std::string& path);

}  // namespace gpumemprof
