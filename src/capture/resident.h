// This process's resident memory, as the system counts it.
#pragma once

#include <cstdint>
#include <optional>

namespace gpumemprof::capture {

// Bytes; none where the system does not tell. One read of an open file: cheap enough for the ends
// of a scope, not for a callback.
std::optional<std::uint64_t> resident_bytes();

}  // namespace gpumemprof::capture
