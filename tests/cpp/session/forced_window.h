// ForcedWindow: while it exists, a recording of any length is read as one that is too long for
// memory.
#pragma once

#include <cstdint>
#include <cstdlib>
#include <string>

namespace gpumemprof {

// Windows and stretches of this many events.
class ForcedWindow {
 public:
  explicit ForcedWindow(std::uint32_t events) {
    ::setenv("GPUMEMPROF_WINDOW_EVENTS", std::to_string(events).c_str(), 1);
  }
  ForcedWindow(const ForcedWindow&) = delete;
  ForcedWindow& operator=(const ForcedWindow&) = delete;
  ~ForcedWindow() { ::unsetenv("GPUMEMPROF_WINDOW_EVENTS"); }
};

}  // namespace gpumemprof
