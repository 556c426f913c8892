// Looking: status, access, links, the current folder.
#include <linux/stat.h>
#include <sys/statfs.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <climits>
#include <cstdlib>

#include "redirect/calls/calls.h"
#include "redirect/kernel.h"
#include "redirect/place.h"
#include "redirect/replaced/replaced.h"
#include "redirect/scratch.h"

using namespace gpumemprof::redirect;  // NOLINT(google-build-using-namespace): ours are C functions

namespace {

int stat_file(int folder_fd, const char* path, struct stat* status, int flags) {
  return static_cast<int>(finish(call_stat(folder_fd, path, status, flags)));
}

int access_file(int folder_fd, const char* path, int wanted, int flags) {
  return static_cast<int>(finish(call_access(folder_fd, path, wanted, flags)));
}

char* current_folder(char* text, size_t size) {
  char path[PATH_MAX];
  const long length = call_getcwd(path, sizeof(path));
  if (finish(length) < 0) {
    return nullptr;
  }
  if (text == nullptr) {
    if (size != 0 && static_cast<size_t>(length) > size) {
      errno = ERANGE;
      return nullptr;
    }
    text = static_cast<char*>(std::malloc(size != 0 ? size : static_cast<size_t>(length)));
    if (text == nullptr) {
      return nullptr;
    }
  } else if (static_cast<size_t>(length) > size) {
    errno = size == 0 ? EINVAL : ERANGE;
    return nullptr;
  }
  std::memcpy(text, path, static_cast<size_t>(length));
  return text;
}

char* resolved_path(const char* path, char* resolved) {
  if (path == nullptr) {
    errno = EINVAL;
    return nullptr;
  }
  Place place;
  long error = resolve(AT_FDCWD, path, LastLink::follow, place);
  if (error == 0 && !place.exists()) {
    error = place.error != 0 ? place.error : -ENOENT;
  }
  if (error == 0 && place.wants_folder && !place.is_folder()) {
    error = -ENOTDIR;
  }
  if (finish(error) < 0) {
    return nullptr;
  }
  if (resolved == nullptr) {
    resolved = static_cast<char*>(std::malloc(place.path.size() + 2));
  }
  if (resolved != nullptr) {
    std::memcpy(resolved, place.path.c_str(), std::strlen(place.path.c_str()) + 1);
  }
  return resolved;
}

// For functions that only need to know where the file is.
template <typename Call>
auto at_backing(const char* path, LastLink last, Call call) -> decltype(call(path)) {
  if (!scratch().is_active() || scratch().changes() == 0) {
    return call(path);
  }
  PathText backing;
  if (finish(backing_of(AT_FDCWD, path, last, backing)) < 0) {
    return -1;
  }
  return call(backing.c_str());
}

}  // namespace

GPUMEMPROF_REPLACE(int, stat, (const char* path, struct stat* status)) {
  return stat_file(AT_FDCWD, path, status, 0);
}
GPUMEMPROF_ALSO(stat, stat64)
GPUMEMPROF_REPLACE(int, lstat, (const char* path, struct stat* status)) {
  return stat_file(AT_FDCWD, path, status, AT_SYMLINK_NOFOLLOW);
}
GPUMEMPROF_ALSO(lstat, lstat64)
GPUMEMPROF_REPLACE(int, fstat, (int fd, struct stat* status)) {
  return static_cast<int>(finish(call_fstat(fd, status)));
}
GPUMEMPROF_ALSO(fstat, fstat64)
GPUMEMPROF_REPLACE(int, fstatat, (int fd, const char* path, struct stat* status, int flags)) {
  return stat_file(fd, path, status, flags);
}
GPUMEMPROF_ALSO(fstatat, fstatat64)

// What programs built with a glibc before 2.33 call.
GPUMEMPROF_REPLACE(int, __xstat, (int /*version*/, const char* path, struct stat* status)) {
  return stat_file(AT_FDCWD, path, status, 0);
}
GPUMEMPROF_ALSO(__xstat, __xstat64)
GPUMEMPROF_REPLACE(int, __lxstat, (int /*version*/, const char* path, struct stat* status)) {
  return stat_file(AT_FDCWD, path, status, AT_SYMLINK_NOFOLLOW);
}
GPUMEMPROF_ALSO(__lxstat, __lxstat64)
GPUMEMPROF_REPLACE(int, __fxstat, (int /*version*/, int fd, struct stat* status)) {
  return static_cast<int>(finish(call_fstat(fd, status)));
}
GPUMEMPROF_ALSO(__fxstat, __fxstat64)
GPUMEMPROF_REPLACE(int, __fxstatat,
                   (int /*version*/, int fd, const char* path, struct stat* status, int flags)) {
  return stat_file(fd, path, status, flags);
}
GPUMEMPROF_ALSO(__fxstatat, __fxstatat64)

GPUMEMPROF_REPLACE(int, statx,
                   (int folder_fd, const char* path, int flags, unsigned mask,
                    struct statx* status)) {
  return static_cast<int>(finish(call_statx(folder_fd, path, flags, mask, status)));
}

GPUMEMPROF_REPLACE(int, access, (const char* path, int wanted)) {
  return access_file(AT_FDCWD, path, wanted, 0);
}
GPUMEMPROF_REPLACE(int, eaccess, (const char* path, int wanted)) {
  return access_file(AT_FDCWD, path, wanted, AT_EACCESS);
}
GPUMEMPROF_ALSO(eaccess, euidaccess)
GPUMEMPROF_REPLACE(int, faccessat, (int folder_fd, const char* path, int wanted, int flags)) {
  return access_file(folder_fd, path, wanted, flags);
}

GPUMEMPROF_REPLACE(ssize_t, readlinkat, (int fd, const char* path, char* text, size_t size)) {
  return finish(call_readlink(fd, path, text, size));
}
GPUMEMPROF_REPLACE(ssize_t, readlink, (const char* path, char* text, size_t size)) {
  return finish(call_readlink(AT_FDCWD, path, text, size));
}
GPUMEMPROF_REPLACE(ssize_t, __readlink_chk,
                   (const char* path, char* text, size_t size, size_t /*capacity*/)) {
  return finish(call_readlink(AT_FDCWD, path, text, size));
}
GPUMEMPROF_REPLACE(ssize_t, __readlinkat_chk,
                   (int fd, const char* path, char* text, size_t size, size_t /*capacity*/)) {
  return finish(call_readlink(fd, path, text, size));
}

GPUMEMPROF_REPLACE(char*, realpath, (const char* path, char* resolved)) {
  return resolved_path(path, resolved);
}
GPUMEMPROF_REPLACE(char*, __realpath_chk, (const char* path, char* resolved, size_t /*capacity*/)) {
  return resolved_path(path, resolved);
}
GPUMEMPROF_REPLACE(char*, canonicalize_file_name, (const char* path)) {
  return resolved_path(path, nullptr);
}

GPUMEMPROF_REPLACE(char*, getcwd, (char* text, size_t size)) { return current_folder(text, size); }
GPUMEMPROF_REPLACE(char*, __getcwd_chk, (char* text, size_t size, size_t /*capacity*/)) {
  return current_folder(text, size);
}
GPUMEMPROF_REPLACE(char*, getwd, (char* text)) { return current_folder(text, PATH_MAX); }
GPUMEMPROF_REPLACE(char*, get_current_dir_name, ()) { return current_folder(nullptr, 0); }
GPUMEMPROF_REPLACE(int, chdir, (const char* path)) {
  return static_cast<int>(finish(call_chdir(path)));
}
GPUMEMPROF_REPLACE(int, fchdir, (int fd)) { return static_cast<int>(finish(call_fchdir(fd))); }

GPUMEMPROF_REPLACE(int, statfs, (const char* path, struct statfs* status)) {
  return static_cast<int>(at_backing(path, LastLink::follow, [&](const char* where) {
    return finish(kernel(SYS_statfs, where, status));
  }));
}
GPUMEMPROF_ALSO(statfs, statfs64)
GPUMEMPROF_REPLACE(int, statvfs, (const char* path, struct statvfs* status)) {
  using Type = int(const char*, struct statvfs*);
  auto* real = GPUMEMPROF_NEXT(Type, statvfs);
  return at_backing(path, LastLink::follow, [&](const char* where) { return real(where, status); });
}
GPUMEMPROF_ALSO(statvfs, statvfs64)
GPUMEMPROF_REPLACE(long, pathconf, (const char* path, int name)) {
  using Type = long(const char*, int);
  auto* real = GPUMEMPROF_NEXT(Type, pathconf);
  return at_backing(path, LastLink::follow, [&](const char* where) { return real(where, name); });
}
GPUMEMPROF_REPLACE(int, inotify_add_watch, (int fd, const char* path, unsigned mask)) {
  return static_cast<int>(at_backing(path, LastLink::follow, [&](const char* where) {
    return finish(kernel(SYS_inotify_add_watch, fd, where, mask));
  }));
}

GPUMEMPROF_REPLACE(ssize_t, getxattr,
                   (const char* path, const char* name, void* value, size_t size)) {
  return at_backing(path, LastLink::follow, [&](const char* where) {
    return finish(kernel(SYS_getxattr, where, name, value, size));
  });
}
GPUMEMPROF_REPLACE(ssize_t, lgetxattr,
                   (const char* path, const char* name, void* value, size_t size)) {
  return at_backing(path, LastLink::keep, [&](const char* where) {
    return finish(kernel(SYS_lgetxattr, where, name, value, size));
  });
}
GPUMEMPROF_REPLACE(ssize_t, listxattr, (const char* path, char* names, size_t size)) {
  return at_backing(path, LastLink::follow, [&](const char* where) {
    return finish(kernel(SYS_listxattr, where, names, size));
  });
}
GPUMEMPROF_REPLACE(ssize_t, llistxattr, (const char* path, char* names, size_t size)) {
  return at_backing(path, LastLink::keep, [&](const char* where) {
    return finish(kernel(SYS_llistxattr, where, names, size));
  });
}
