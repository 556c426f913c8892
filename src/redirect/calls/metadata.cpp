#include <unistd.h>

#include <cerrno>

#include "redirect/calls/calls.h"
#include "redirect/kernel.h"
#include "redirect/layer.h"
#include "redirect/place.h"
#include "redirect/scratch.h"

namespace gpumemprof::redirect {
namespace {

// A file that is open needs no path if it is ours, or none can reach it: pipes, unnamed files.
bool is_changed_in_place(int fd, PathText& path) {
  if (fd == AT_FDCWD || !scratch().is_active()) {
    return true;
  }
  PathText link;
  descriptor_link(fd, link);
  const long size =
      kernel(SYS_readlinkat, AT_FDCWD, link.c_str(), path.data(), PathText::capacity());
  if (size <= 0) {
    return true;
  }
  path.resize(static_cast<size_t>(size));
  struct stat open_file{};
  struct stat by_path{};
  return path.view().front() != '/' || kernel(SYS_fstat, fd, &open_file) < 0 ||
         kernel_lstat(path.c_str(), by_path) < 0 || open_file.st_ino != by_path.st_ino ||
         (scratch().is_real(path.view()) && !scratch().to_virtual(path));
}

// `change` gets what a system call takes: a folder, a path and flags; no path means the open file
// itself.
template <typename Change>
long change_metadata(int fd, const char* path, int flags, Allowed allowed, Change change) {
  if (!scratch().is_active()) {
    return change(fd, path, flags);
  }
  PathText of_open_file;
  if (path == nullptr || (path[0] == '\0' && (flags & AT_EMPTY_PATH) != 0)) {
    if (is_changed_in_place(fd, of_open_file)) {
      return change(fd, nullptr, flags);
    }
    fd = AT_FDCWD;
    path = of_open_file.c_str();
    flags &= ~AT_EMPTY_PATH;
  }
  const bool follows = (flags & AT_SYMLINK_NOFOLLOW) == 0;
  Place place;
  if (const long error = resolve(fd, path, follows ? LastLink::follow : LastLink::keep, place);
      error < 0) {
    return error;
  }
  if (place.is_real_only) {
    return change(AT_FDCWD, place.path.c_str(), flags);
  }
  const ChangeLock lock;
  look_anew(place);
  if (!place.exists()) {
    return place.error != 0 ? place.error : -ENOENT;
  }
  if (place.wants_folder && !place.is_folder()) {
    return -ENOTDIR;
  }
  if (place.is_borrowed()) {
    if (const long error = may_change_metadata(place, allowed); error < 0) {
      return error;
    }
    if (const long error = copy_up(place, Content::copied); error < 0) {
      return error;
    }
  }
  scratch().touch(place.path.view());
  return change(AT_FDCWD, place.backing.c_str(), flags);
}

}  // namespace

long call_chmod(int folder_fd, const char* path, mode_t mode, int flags) {
  return change_metadata(
      folder_fd, path, flags, Allowed::owner, [&](int fd, const char* where, int how) -> long {
        if (where == nullptr) {
          return kernel(SYS_fchmod, fd, mode);
        }
        struct stat status{};
        if ((how & AT_SYMLINK_NOFOLLOW) != 0 &&
            kernel(SYS_newfstatat, fd, where, &status, AT_SYMLINK_NOFOLLOW) == 0 &&
            S_ISLNK(status.st_mode)) {
          return -EOPNOTSUPP;
        }
        return kernel(SYS_fchmodat, fd, where, mode);
      });
}

long call_chown(int folder_fd, const char* path, uid_t user, gid_t group, int flags) {
  return change_metadata(
      folder_fd, path, flags, Allowed::owner, [&](int fd, const char* where, int how) {
        return where == nullptr ? kernel(SYS_fchown, fd, user, group)
                                : kernel(SYS_fchownat, fd, where, user, group, how);
      });
}

long call_utimens(int folder_fd, const char* path, const timespec* times, int flags) {
  return change_metadata(
      folder_fd, path, flags, times == nullptr ? Allowed::writer : Allowed::owner,
      [&](int fd, const char* where, int how) {
        return kernel(SYS_utimensat, fd, where, times, where == nullptr ? 0 : how);
      });
}

long call_setxattr(int fd, const char* path, const char* name, const void* value, size_t size,
                   int how, int flags) {
  return change_metadata(
      fd, path, flags, Allowed::writer, [&](int open_fd, const char* where, int link_flags) {
        if (where == nullptr) {
          return kernel(SYS_fsetxattr, open_fd, name, value, size, how);
        }
        const bool follows = (link_flags & AT_SYMLINK_NOFOLLOW) == 0;
        return kernel(follows ? SYS_setxattr : SYS_lsetxattr, where, name, value, size, how);
      });
}

long call_removexattr(int fd, const char* path, const char* name, int flags) {
  return change_metadata(fd, path, flags, Allowed::writer,
                         [&](int open_fd, const char* where, int link_flags) {
                           if (where == nullptr) {
                             return kernel(SYS_fremovexattr, open_fd, name);
                           }
                           const bool follows = (link_flags & AT_SYMLINK_NOFOLLOW) == 0;
                           return kernel(follows ? SYS_removexattr : SYS_lremovexattr, where, name);
                         });
}

}  // namespace gpumemprof::redirect
