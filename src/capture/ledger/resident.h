// This process's resident memory, as the system reports it.
#pragma once

#include <cstdint>
#include <optional>

namespace gpumemprof::capture {

// Bytes; none if the system does not report it. One read of an open file: cheap enough for opening
// and closing a scope, not for a callback.
std::optional<std::uint64_t> resident_bytes();

}  // namespace gpumemprof::capture
