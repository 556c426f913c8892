// What Linux says about this process, and about the one that makes a recording.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace gpumemprof {

// Empty: not known.
std::string own_command();
std::string own_host();
std::string own_process_id();

// Whether the process of this number on this host still writes the recording. Nothing where that
// cannot be seen: it is another user's, or runs on another machine or in another container.
std::optional<bool> is_being_written(const std::string& path, const std::string& host,
                                     std::optional<std::uint64_t> pid);

}  // namespace gpumemprof
