#include "verbs/heap_bound.h"

#include <algorithm>
#include <atomic>

#if defined(__SANITIZE_ADDRESS__)
// The sanitizer's own header is not available everywhere the sanitizer is.
// NOLINTBEGIN(bugprone-reserved-identifier,readability-identifier-naming)
extern "C" {
int __sanitizer_install_malloc_and_free_hooks(void (*on_malloc)(const volatile void*, std::size_t),
                                              void (*on_free)(const volatile void*));
std::size_t __sanitizer_get_allocated_size(const volatile void* memory);
}
// NOLINTEND(bugprone-reserved-identifier,readability-identifier-naming)
#endif

namespace gpumemprof::fuzz {

#if defined(__SANITIZE_ADDRESS__)

namespace {

std::atomic<std::ptrdiff_t> live_bytes = 0;
std::atomic<std::ptrdiff_t> most_live_bytes = 0;

void on_malloc(const volatile void* /*memory*/, std::size_t size) {
  const std::ptrdiff_t live = live_bytes += static_cast<std::ptrdiff_t>(size);
  if (live > most_live_bytes) most_live_bytes = live;
}

void on_free(const volatile void* memory) {
  if (memory == nullptr) return;
  live_bytes -= static_cast<std::ptrdiff_t>(__sanitizer_get_allocated_size(memory));
}

}  // namespace

HeapBound::HeapBound() {
  static const int installed = __sanitizer_install_malloc_and_free_hooks(on_malloc, on_free);
  (void)installed;
  live_bytes = 0;
  most_live_bytes = 0;
}

std::size_t HeapBound::most_bytes() const {
  return static_cast<std::size_t>(std::max<std::ptrdiff_t>(most_live_bytes, 0));
}

#else

HeapBound::HeapBound() = default;
std::size_t HeapBound::most_bytes() const { return 0; }

#endif

}  // namespace gpumemprof::fuzz
