// Whether any code object or described module was destroyed since: only then can another object be
// at an address we know.
//
// Python 3.12 and later report the destruction of code objects; before that every frame is checked
// again each time.
#pragma once

#include <atomic>
#include <cstdint>

namespace gpumemprof::capture {

// Read at every event, so both are stored together and read without a call.
struct CodeDeaths {
  std::atomic<std::uint64_t> count{0};
  std::atomic<bool> is_told{false};
};
extern CodeDeaths g_code_deaths;

// Another object may take the place of one the recorder knows.
inline void count_death() { g_code_deaths.count.fetch_add(1, std::memory_order_relaxed); }

// Subscribes to Python's notifications; once, with the GIL held.
void watch_code_deaths();
[[nodiscard]] inline bool knows_code_deaths() {
  return g_code_deaths.is_told.load(std::memory_order_relaxed);
}
[[nodiscard]] inline std::uint64_t code_deaths() {
  return g_code_deaths.count.load(std::memory_order_relaxed);
}

}  // namespace gpumemprof::capture
