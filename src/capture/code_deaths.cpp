#include "capture/code_deaths.h"

#include <dlfcn.h>

#include <atomic>

namespace gpumemprof::capture {
namespace {

std::atomic<std::uint64_t> g_deaths{0};
std::atomic<bool> g_is_told{false};

// Python's numbers: 0 created, 1 about to be destroyed.
int on_code_event(int event, void* /*code*/) {
  if (event == 1) g_deaths.fetch_add(1, std::memory_order_relaxed);
  return 0;
}

}  // namespace

void watch_code_deaths() {
  if (g_is_told.load(std::memory_order_relaxed)) return;
  using AddWatcher = int (*)(int (*)(int, void*));
  const auto add = reinterpret_cast<AddWatcher>(::dlsym(RTLD_DEFAULT, "PyCode_AddWatcher"));
  if (add != nullptr && add(on_code_event) >= 0) g_is_told.store(true, std::memory_order_relaxed);
}

bool knows_code_deaths() { return g_is_told.load(std::memory_order_relaxed); }
std::uint64_t code_deaths() { return g_deaths.load(std::memory_order_relaxed); }

}  // namespace gpumemprof::capture
