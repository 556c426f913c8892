#include "capture/thread_key.h"

#include <climits>

namespace gpumemprof::capture {

std::optional<pthread_key_t> find_thread_key(AskThreadState ask) {
  const void* state = ask();
  if (state == nullptr) return std::nullopt;
  std::optional<pthread_key_t> found;
  for (pthread_key_t key = 0; key < PTHREAD_KEYS_MAX; ++key) {
    // This returns null for a key that nobody created.
    if (::pthread_getspecific(key) != state) continue;
    if (found) return std::nullopt;
    found = key;
  }
  return found;
}

}  // namespace gpumemprof::capture
