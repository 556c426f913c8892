// System calls, made without the C library: its functions are what this library replaces.
//
// All return what the kernel does, a negated errno on failure, and leave errno alone. Safe in
// signal handlers and between fork and exec.
#pragma once

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/syscall.h>

#include <cstddef>

namespace gpumemprof::redirect {

// An argument as the kernel takes it: a number or an address.
struct Word {
  template <typename T>
  Word(T* pointer)
      : value(reinterpret_cast<long>(pointer)) {}  // NOLINT(google-explicit-constructor)
  template <typename T>
  Word(T number) : value(static_cast<long>(number)) {}  // NOLINT(google-explicit-constructor)
  Word(std::nullptr_t) : value(0) {}                    // NOLINT(google-explicit-constructor)
  long value;
};

inline long kernel(long number, Word a = 0, Word b = 0, Word c = 0, Word d = 0, Word e = 0,
                   Word f = 0) {
#if defined(__x86_64__)
  long result = number;
  register long r10 __asm__("r10") = d.value;
  register long r8 __asm__("r8") = e.value;
  register long r9 __asm__("r9") = f.value;
  __asm__ volatile("syscall"
                   : "+a"(result)
                   : "D"(a.value), "S"(b.value), "d"(c.value), "r"(r10), "r"(r8), "r"(r9)
                   : "rcx", "r11", "memory");
  return result;
#elif defined(__aarch64__)
  register long x8 __asm__("x8") = number;
  register long x0 __asm__("x0") = a.value;
  register long x1 __asm__("x1") = b.value;
  register long x2 __asm__("x2") = c.value;
  register long x3 __asm__("x3") = d.value;
  register long x4 __asm__("x4") = e.value;
  register long x5 __asm__("x5") = f.value;
  __asm__ volatile("svc 0"
                   : "+r"(x0)
                   : "r"(x8), "r"(x1), "r"(x2), "r"(x3), "r"(x4), "r"(x5)
                   : "memory");
  return x0;
#else
#error "the redirecting library knows the system calls of x86_64 and aarch64"
#endif
}

// A file descriptor that is closed at the end of the scope.
class Descriptor {
 public:
  explicit Descriptor(long fd) : fd_(static_cast<int>(fd)) {}
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  ~Descriptor() {
    if (fd_ >= 0) {
      kernel(SYS_close, fd_);
    }
  }
  [[nodiscard]] int get() const { return fd_; }
  [[nodiscard]] bool is_open() const { return fd_ >= 0; }
  int release() {
    const int fd = fd_;
    fd_ = -1;
    return fd;
  }

 private:
  int fd_;
};

inline long kernel_open(const char* path, int flags, mode_t mode = 0) {
  return kernel(SYS_openat, AT_FDCWD, path, flags, mode);
}

inline long kernel_lstat(const char* path, struct stat& status) {
  return kernel(SYS_newfstatat, AT_FDCWD, path, &status, AT_SYMLINK_NOFOLLOW);
}

inline long kernel_rename(const char* from, const char* to, unsigned flags = 0) {
  return kernel(SYS_renameat2, AT_FDCWD, from, AT_FDCWD, to, flags);
}

}  // namespace gpumemprof::redirect
