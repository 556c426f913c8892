#include "capture/libtorch/first_use.h"

#include <dlfcn.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <mutex>

#include "capture/hooks/call_table.h"
#include "capture/hooks/cuda_report.h"

namespace gpumemprof::capture {
namespace {

constexpr char kAllocatorLibrary[] = "libc10_cuda.so";
constexpr char kMalloc[] = "cudaMalloc";
using Malloc = int (*)(void**, std::size_t);

Malloc g_cuda_malloc = nullptr;
std::atomic<void (*)()> g_on_use{nullptr};

void note_use() {
  if (void (*on_use)() = g_on_use.load(std::memory_order_acquire); on_use != nullptr) on_use();
}

int malloc_hook(void** memory, std::size_t bytes) {
  note_use();
  return g_cuda_malloc(memory, bytes);
}

// The function that libc10_cuda would call: the loader looks in the library and what it needs.
Malloc find_malloc() {
  void* library = ::dlopen(kAllocatorLibrary, RTLD_LAZY | RTLD_NOLOAD);
  return library == nullptr ? nullptr : reinterpret_cast<Malloc>(::dlsym(library, kMalloc));
}

bool redirect_malloc() {
  g_cuda_malloc = find_malloc();
  return g_cuda_malloc != nullptr &&
         redirect_calls(kAllocatorLibrary, kMalloc, reinterpret_cast<void*>(malloc_hook)) > 0;
}

}  // namespace

Status wait_for_use(void (*on_use)()) {
  static std::mutex mutex;
  static bool is_attached = false;
  const std::lock_guard lock(mutex);
  if (!is_attached) {
    const bool is_redirected = redirect_malloc();
    const Status reported = attach_cuda_report();
    if (!is_redirected && !reported) return reported.error();
    set_report_listener(note_use);
    is_attached = true;
  }
  g_on_use.store(on_use, std::memory_order_release);
  return Done{};
}

void stop_waiting_for_use() { g_on_use.store(nullptr, std::memory_order_release); }

}  // namespace gpumemprof::capture
