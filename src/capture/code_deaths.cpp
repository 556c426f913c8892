#include "capture/code_deaths.h"

#include <dlfcn.h>

namespace gpumemprof::capture {

CodeDeaths g_code_deaths;

namespace {

// Python's event numbers: 0 created, 1 about to be destroyed.
int on_code_event(int event, void* /*code*/) {
  if (event == 1) g_code_deaths.count.fetch_add(1, std::memory_order_relaxed);
  return 0;
}

}  // namespace

void watch_code_deaths() {
  if (knows_code_deaths()) return;
  using AddWatcher = int (*)(int (*)(int, void*));
  const auto add = reinterpret_cast<AddWatcher>(::dlsym(RTLD_DEFAULT, "PyCode_AddWatcher"));
  if (add != nullptr && add(on_code_event) >= 0)
    g_code_deaths.is_told.store(true, std::memory_order_relaxed);
}

}  // namespace gpumemprof::capture
