// Whether any code object died since, or any module that was described: only then can another stand
// at an address we know.
//
// Of code objects Python 3.12 and later tell; before that every frame is looked at anew.
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

// Another object may take the place of one that the recorder knows.
inline void count_death() { g_code_deaths.count.fetch_add(1, std::memory_order_relaxed); }

// Asks Python to be told; once, with the GIL held.
void watch_code_deaths();
[[nodiscard]] inline bool knows_code_deaths() {
  return g_code_deaths.is_told.load(std::memory_order_relaxed);
}
[[nodiscard]] inline std::uint64_t code_deaths() {
  return g_code_deaths.count.load(std::memory_order_relaxed);
}

}  // namespace gpumemprof::capture
