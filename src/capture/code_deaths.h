// Whether any code object died since: only then can another function stand at an address we know.
//
// Python 3.12 and later tell; before that every frame is looked at anew.
#pragma once

#include <cstdint>

namespace gpumemprof::capture {

// Asks Python to be told; once, with the GIL held.
void watch_code_deaths();
[[nodiscard]] bool knows_code_deaths();
[[nodiscard]] std::uint64_t code_deaths();

}  // namespace gpumemprof::capture
