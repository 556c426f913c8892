// How a function of the C library is replaced.
//
// Ours has another name in C++, so that no declaration of the C library's headers gets in its way,
// and the C library's name in the object file.
#pragma once

#include <dlfcn.h>

#include <atomic>
#include <cerrno>

// NOLINTBEGIN(bugprone-macro-parentheses): they are no expressions
#define GPUMEMPROF_VISIBLE __attribute__((visibility("default"), used))
#define GPUMEMPROF_REPLACE(type, name, parameters)                         \
  extern "C" type our_##name parameters __asm__(#name) GPUMEMPROF_VISIBLE; \
  type our_##name parameters
// The same function under a second name: with 64-bit offsets, which it always has here.
#define GPUMEMPROF_ALSO(name, second)                                         \
  extern "C" decltype(our_##name) our_##name##_also_##second __asm__(#second) \
      __attribute__((visibility("default"), alias(#name)));
// NOLINTEND(bugprone-macro-parentheses)

namespace gpumemprof::redirect {

// What a system call returned, as the C library reports it.
inline long finish(long result) {
  if (result < 0 && result >= -4095) {
    errno = static_cast<int>(-result);
    return -1;
  }
  return result;
}

// The C library's own function, looked up once. Null if it is too old to have it.
template <typename Function>
Function* next_function(std::atomic<Function*>& found, const char* name) {
  Function* function = found.load(std::memory_order_acquire);
  if (function == nullptr) {
    function = reinterpret_cast<Function*>(dlsym(RTLD_NEXT, name));
    found.store(function, std::memory_order_release);
  }
  return function;
}

}  // namespace gpumemprof::redirect

#define GPUMEMPROF_NEXT(type, name)                                             \
  [] {                                                                          \
    static std::atomic<type*> cached_function;                                  \
    return ::gpumemprof::redirect::next_function<type>(cached_function, #name); \
  }()
