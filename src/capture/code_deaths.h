// Whether any code object died since: only then can another function stand at an address we know.
//
// Python 3.12 and later tell; before that every frame is looked at anew.
#pragma once

#include <atomic>
#include <cstdint>

namespace gpumemprof::capture {

// Read at every event, so both lie together and are read without a call.
struct CodeDeaths {
  std::atomic<std::uint64_t> count{0};
  std::atomic<bool> is_told{false};
};
extern CodeDeaths g_code_deaths;

// Asks Python to be told; once, with the GIL held.
void watch_code_deaths();
[[nodiscard]] inline bool knows_code_deaths() {
  return g_code_deaths.is_told.load(std::memory_order_relaxed);
}
[[nodiscard]] inline std::uint64_t code_deaths() {
  return g_code_deaths.count.load(std::memory_order_relaxed);
}

}  // namespace gpumemprof::capture
