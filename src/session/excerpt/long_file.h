// Which recordings are too long to be held in memory as a whole.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>

#include "windows/device_pass.h"

namespace gpumemprof {

// For tests: windows of this many events, whatever the size of the file.
std::optional<std::uint32_t> forced_window();

// Of a file, or of the chapters of a folder; 0 if there are none.
std::uint64_t recording_bytes(const std::string& path);
// When something was last written to it.
std::optional<std::filesystem::file_time_type> last_change(const std::string& path);

// How a long recording is read; none: it is short, or not one of ours.
std::optional<WindowSizes> window_sizes(const std::string& path);

}  // namespace gpumemprof
