// Whether any code object or described module was destroyed since: only then can another object be
// at an address we know.
//
// Python 3.12 and later report the destruction of code objects; before that every frame is checked
// again each time.
#pragma once

#include <dlfcn.h>

#include <atomic>
#include <cstdint>

namespace gpumemprof::capture {

// Read at every event, so both are stored together and read without a call.
struct CodeObjectWatch {
  std::atomic<std::uint64_t> destroyed{0};
  std::atomic<bool> is_active{false};
};
inline CodeObjectWatch g_code_object_watch;

// Another object may take the place of one the recorder knows.
inline void count_destroyed() {
  g_code_object_watch.destroyed.fetch_add(1, std::memory_order_relaxed);
}
[[nodiscard]] inline std::uint64_t objects_destroyed() {
  return g_code_object_watch.destroyed.load(std::memory_order_relaxed);
}
[[nodiscard]] inline bool watches_code_objects() {
  return g_code_object_watch.is_active.load(std::memory_order_relaxed);
}

// Python's event numbers: 0 created, 1 about to be destroyed.
inline int code_object_destroyed(int event, void* /*code*/) {
  if (event == 1) count_destroyed();
  return 0;
}

// Subscribes to Python's notifications; once, with the GIL held.
inline void watch_code_objects() {
  if (watches_code_objects()) return;
  using AddWatcher = int (*)(int (*)(int, void*));
  const auto add = reinterpret_cast<AddWatcher>(::dlsym(RTLD_DEFAULT, "PyCode_AddWatcher"));
  if (add != nullptr && add(code_object_destroyed) >= 0)
    g_code_object_watch.is_active.store(true, std::memory_order_relaxed);
}

}  // namespace gpumemprof::capture
