// os._exit() ends a process without notifying anyone: no atexit function runs, and what the ring
// holds would be lost. Python's call of _exit(2) is redirected to our hook, which closes the
// recordings first.
#include <dlfcn.h>
#include <unistd.h>

#include <string>
#include <string_view>

#include "capture/capture.h"
#include "capture/hooks/call_table.h"
#include "capture/hooks/engine.h"

namespace gpumemprof::capture {
namespace {

[[noreturn]] void exit_hook(int code) {
  // Nothing may keep the program from exiting; a recording that cannot be closed stays open.
  try {
    if (Engine* engine = Engine::existing()) engine->stop_all("_exit " + std::to_string(code));
  } catch (...) {
  }
  ::_exit(code);
}

std::string python_library() {
  const void* python = ::dlsym(RTLD_DEFAULT, "Py_GetVersion");
  Dl_info info{};
  if (python == nullptr || ::dladdr(python, &info) == 0 || info.dli_fname == nullptr) return "";
  const std::string_view path = info.dli_fname;
  return std::string(path.substr(path.find_last_of('/') + 1));
}

}  // namespace

bool watch_exit() {
  static const int kChanged = [] {
    auto* target = reinterpret_cast<void*>(exit_hook);
    const std::string library = python_library();
    const int changed = redirect_calls("", "_exit", target);  // the main program has an empty name
    return library.empty() ? changed : changed + redirect_calls(library, "_exit", target);
  }();
  return kChanged > 0;
}

}  // namespace gpumemprof::capture
