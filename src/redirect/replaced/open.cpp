// Opening: files, streams, temporary files, shared memory, libraries.
#include <fcntl.h>
#include <semaphore.h>

#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <ctime>

#include "redirect/calls/calls.h"
#include "redirect/kernel.h"
#include "redirect/place.h"
#include "redirect/replaced/replaced.h"
#include "redirect/scratch.h"

using namespace gpumemprof::redirect;  // NOLINT(google-build-using-namespace): ours are C functions

namespace {

int open_file(int folder_fd, const char* path, int flags, mode_t mode) {
  return static_cast<int>(finish(call_open(folder_fd, path, flags, mode)));
}

bool takes_mode(int flags) { return (flags & O_CREAT) != 0 || (flags & O_TMPFILE) == O_TMPFILE; }

// The flags of a stream's mode: "r+b", "wx". -1 if it is none.
int stream_flags(const char* mode) {
  int flags = 0;
  switch (mode[0]) {
    case 'r':
      flags = O_RDONLY;
      break;
    case 'w':
      flags = O_WRONLY | O_CREAT | O_TRUNC;
      break;
    case 'a':
      flags = O_WRONLY | O_CREAT | O_APPEND;
      break;
    default:
      return -1;
  }
  for (const char* letter = mode + 1; *letter != '\0' && *letter != ','; ++letter) {
    switch (*letter) {
      case '+':
        flags = (flags & ~O_ACCMODE) | O_RDWR;
        break;
      case 'x':
        flags |= O_EXCL;
        break;
      case 'e':
        flags |= O_CLOEXEC;
        break;
      default:
        break;
    }
  }
  return flags;
}

// Replaces the six X before the suffix until the name is free.
template <typename Make>
long make_temporary(char* name, int suffix, Make make) {
  const size_t size = std::strlen(name);
  if (suffix < 0 || size < static_cast<size_t>(suffix) + 6) {
    return -EINVAL;
  }
  char* letters = name + size - static_cast<size_t>(suffix) - 6;
  if (std::string_view(letters, 6) != "XXXXXX") {
    return -EINVAL;
  }
  constexpr std::string_view kLetters =
      "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789";
  static std::atomic<uint64_t> state{0};
  for (int attempt = 0; attempt < 1000; ++attempt) {
    timespec now{};
    kernel(SYS_clock_gettime, CLOCK_MONOTONIC, &now);
    uint64_t random = state.fetch_add(0x9e3779b97f4a7c15U) ^
                      (static_cast<uint64_t>(now.tv_nsec) << 20U) ^
                      (static_cast<uint64_t>(kernel(SYS_gettid)) << 44U);
    random = (random ^ (random >> 31U)) * 0xbf58476d1ce4e5b9U;
    random ^= random >> 29U;
    for (int at = 0; at < 6; ++at) {
      letters[at] = kLetters[random % kLetters.size()];
      random /= kLetters.size();
    }
    const long made = make(name);
    if (made != -EEXIST) {
      return made;
    }
  }
  return -EEXIST;
}

int make_temporary_file(char* name, int suffix, int flags) {
  return static_cast<int>(finish(make_temporary(name, suffix, [&](const char* path) {
    return call_open(AT_FDCWD, path, (flags & ~O_ACCMODE) | O_RDWR | O_CREAT | O_EXCL, 0600);
  })));
}

// The path below /dev/shm of a shared object; its mark if the program made it, so that it is really
// there.
struct SharedObject {
  PathText path{"/dev/shm"};
  PathText mark{scratch().folder()};

  explicit SharedObject(const char* name, const char* prefix = "") {
    while (*name == '/') {
      ++name;
    }
    for (PathText* text : {&path, &mark}) {
      text->append(text == &path ? "/" : "/shared/");
      text->append(prefix);
      text->append(name);
    }
  }
  [[nodiscard]] bool exists() const {
    struct stat status{};
    return kernel_lstat(path.c_str(), status) == 0;
  }
  [[nodiscard]] bool is_ours() const {
    struct stat status{};
    return kernel_lstat(mark.c_str(), status) == 0;
  }
  void make_ours() const {
    const Descriptor made(kernel_open(mark.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0600));
  }
  void forget() const { kernel(SYS_unlinkat, AT_FDCWD, mark.c_str(), 0); }
};

// A library that the program wrote is where we keep it; all others have the path that they were
// given.
__attribute__((noinline)) const char* written_library(const char* path) {
  if (path == nullptr || std::strchr(path, '/') == nullptr || !scratch().is_active() ||
      scratch().changes() == 0) {
    return path;
  }
  static thread_local char where[PATH_MAX];
  PathText backing;
  if (backing_of(AT_FDCWD, path, LastLink::follow, backing) < 0 ||
      !is_below(backing.view(), scratch().folder())) {
    return path;
  }
  std::memcpy(where, backing.c_str(), backing.size() + 1);
  return where;
}

}  // namespace

GPUMEMPROF_REPLACE(int, open, (const char* path, int flags, ...)) {
  va_list rest;
  va_start(rest, flags);
  const mode_t mode = takes_mode(flags) ? va_arg(rest, mode_t) : 0;
  va_end(rest);
  return open_file(AT_FDCWD, path, flags, mode);
}
GPUMEMPROF_ALSO(open, open64)
GPUMEMPROF_ALSO(open, __open)
GPUMEMPROF_ALSO(open, __open64)

GPUMEMPROF_REPLACE(int, openat, (int folder_fd, const char* path, int flags, ...)) {
  va_list rest;
  va_start(rest, flags);
  const mode_t mode = takes_mode(flags) ? va_arg(rest, mode_t) : 0;
  va_end(rest);
  return open_file(folder_fd, path, flags, mode);
}
GPUMEMPROF_ALSO(openat, openat64)

GPUMEMPROF_REPLACE(int, __open_2, (const char* path, int flags)) {
  return open_file(AT_FDCWD, path, flags, 0);
}
GPUMEMPROF_ALSO(__open_2, __open64_2)

GPUMEMPROF_REPLACE(int, __openat_2, (int folder_fd, const char* path, int flags)) {
  return open_file(folder_fd, path, flags, 0);
}
GPUMEMPROF_ALSO(__openat_2, __openat64_2)

GPUMEMPROF_REPLACE(int, creat, (const char* path, mode_t mode)) {
  return open_file(AT_FDCWD, path, O_WRONLY | O_CREAT | O_TRUNC, mode);
}
GPUMEMPROF_ALSO(creat, creat64)

GPUMEMPROF_REPLACE(int, truncate, (const char* path, off_t size)) {
  return static_cast<int>(finish(call_truncate(path, size)));
}
GPUMEMPROF_ALSO(truncate, truncate64)

GPUMEMPROF_REPLACE(FILE*, fopen, (const char* path, const char* mode)) {
  const int flags = stream_flags(mode);
  if (flags < 0) {
    errno = EINVAL;
    return nullptr;
  }
  const int fd = open_file(AT_FDCWD, path, flags, 0666);
  if (fd < 0) {
    return nullptr;
  }
  FILE* stream = fdopen(fd, mode);
  if (stream == nullptr) {
    kernel(SYS_close, fd);
  }
  return stream;
}
GPUMEMPROF_ALSO(fopen, fopen64)

GPUMEMPROF_REPLACE(FILE*, freopen, (const char* path, const char* mode, FILE* stream)) {
  using Type = FILE*(const char*, const char*, FILE*);
  auto* real = GPUMEMPROF_NEXT(Type, freopen);
  const int flags = stream_flags(mode);
  if (path == nullptr || flags < 0 || !scratch().is_active()) {
    return real(path, mode, stream);
  }
  // Opened once by us, which copies or makes the file, then by the C library where it is.
  const Descriptor prepared(call_open(AT_FDCWD, path, flags | O_CLOEXEC, 0666));
  PathText where;
  descriptor_link(prepared.get(), where);
  if (!prepared.is_open()) {
    where.assign(path);
    finish(prepared.get());
    const int error = errno;
    std::fclose(stream);
    errno = error;
    return nullptr;
  }
  char plain_mode[4] = {mode[0], '\0', '\0', '\0'};
  if ((flags & O_ACCMODE) == O_RDWR) {
    plain_mode[1] = '+';
  }
  return real(where.c_str(), plain_mode, stream);
}
GPUMEMPROF_ALSO(freopen, freopen64)

GPUMEMPROF_REPLACE(int, mkstemp, (char* name)) { return make_temporary_file(name, 0, 0); }
GPUMEMPROF_ALSO(mkstemp, mkstemp64)
GPUMEMPROF_REPLACE(int, mkostemp, (char* name, int flags)) {
  return make_temporary_file(name, 0, flags);
}
GPUMEMPROF_ALSO(mkostemp, mkostemp64)
GPUMEMPROF_REPLACE(int, mkstemps, (char* name, int suffix)) {
  return make_temporary_file(name, suffix, 0);
}
GPUMEMPROF_ALSO(mkstemps, mkstemps64)
GPUMEMPROF_REPLACE(int, mkostemps, (char* name, int suffix, int flags)) {
  return make_temporary_file(name, suffix, flags);
}
GPUMEMPROF_ALSO(mkostemps, mkostemps64)

GPUMEMPROF_REPLACE(char*, mkdtemp, (char* name)) {
  const long made =
      make_temporary(name, 0, [](const char* path) { return call_mkdir(AT_FDCWD, path, 0700); });
  return finish(made) < 0 ? nullptr : name;
}

GPUMEMPROF_REPLACE(int, shm_open, (const char* name, int flags, mode_t mode)) {
  const SharedObject object(name);
  flags |= O_CLOEXEC | O_NOFOLLOW;
  if (!scratch().is_active()) {
    return static_cast<int>(finish(kernel_open(object.path.c_str(), flags, mode)));
  }
  if (!object.exists() && (flags & O_CREAT) != 0) {
    object.make_ours();
  }
  return open_file(AT_FDCWD, object.path.c_str(), flags, mode);
}

GPUMEMPROF_REPLACE(int, shm_unlink, (const char* name)) {
  const SharedObject object(name);
  const long result = call_unlink(AT_FDCWD, object.path.c_str(), 0);
  if (result == 0 && scratch().is_active()) {
    object.forget();
  }
  return static_cast<int>(finish(result));
}

GPUMEMPROF_REPLACE(sem_t*, sem_open, (const char* name, int flags, ...)) {
  va_list rest;
  va_start(rest, flags);
  const mode_t mode = (flags & O_CREAT) != 0 ? va_arg(rest, mode_t) : 0;
  const unsigned value = (flags & O_CREAT) != 0 ? va_arg(rest, unsigned) : 0;
  va_end(rest);
  if (scratch().is_active()) {
    const SharedObject object(name, "sem.");
    if (!object.exists() && (flags & O_CREAT) != 0) {
      object.make_ours();
    }
  }
  using Type = sem_t*(const char*, int, ...);
  return GPUMEMPROF_NEXT(Type, sem_open)(name, flags, mode, value);
}

GPUMEMPROF_REPLACE(int, sem_unlink, (const char* name)) {
  using Type = int(const char*);
  if (scratch().is_active()) {
    const SharedObject object(name, "sem.");
    if (object.exists() && !object.is_ours()) {
      return 0;  // somebody else's: it stays
    }
    object.forget();
  }
  return GPUMEMPROF_NEXT(Type, sem_unlink)(name);
}

// By a jump, without a frame of ours: the loader looks at who called.
GPUMEMPROF_REPLACE(void*, dlopen, (const char* path, int flags)) {
  using Type = void*(const char*, int);
  Type* real = GPUMEMPROF_NEXT(Type, dlopen);
  return real(written_library(path), flags);
}
