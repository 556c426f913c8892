#include <linux/stat.h>
#include <sys/sysmacros.h>

#include <cerrno>
#include <cstring>

#include "redirect/calls/calls.h"
#include "redirect/kernel.h"
#include "redirect/layer.h"
#include "redirect/place.h"
#include "redirect/scratch.h"
#include "redirect/untouched.h"

namespace gpumemprof::redirect {
namespace {

bool is_unchanged() {
  const Scratch& shared = scratch();
  return !shared.is_active() || shared.changes() == 0;
}

bool names_descriptor(const char* path, int flags) {
  return (flags & AT_EMPTY_PATH) != 0 && (path == nullptr || path[0] == '\0');
}

// The place of a path that must exist.
long find(int folder_fd, const char* path, LastLink last, Place& place) {
  if (const long error = resolve(folder_fd, path, last, place); error < 0) {
    return error;
  }
  if (place.is_real_only) {
    return 0;
  }
  if (!place.exists()) {
    return place.error != 0 ? place.error : -ENOENT;
  }
  return place.wants_folder && !place.is_folder() ? -ENOTDIR : 0;
}

// A folder that is open may have changed since.
long folder_status(int fd, struct stat* status) {
  Place place;
  if (path_of_descriptor(fd, place.path) < 0) {
    return 0;
  }
  look_anew(place);
  if (place.is_folder() && !place.is_real_only) {
    *status = place.status;
  }
  return 0;
}

void fill_statx(const struct stat& from, struct statx& to) {
  to.stx_mask |= STATX_BASIC_STATS;
  to.stx_nlink = static_cast<unsigned>(from.st_nlink);
  to.stx_mode = static_cast<unsigned short>(from.st_mode);
  to.stx_ino = from.st_ino;
  to.stx_dev_major = major(from.st_dev);
  to.stx_dev_minor = minor(from.st_dev);
}

}  // namespace

long backing_of(int folder_fd, const char* path, LastLink last, PathText& backing) {
  Place place;
  if (const long error = find(folder_fd, path, last, place); error < 0) {
    return error;
  }
  backing = place.is_real_only ? place.path : place.backing;
  return 0;
}

long call_fstat(int fd, struct stat* status) {
  const long error = kernel(SYS_fstat, fd, status);
  if (error < 0 || !S_ISDIR(status->st_mode) || is_unchanged()) {
    return error;
  }
  return folder_status(fd, status);
}

long call_stat(int folder_fd, const char* path, struct stat* status, int flags) {
  if (is_unchanged()) {
    return kernel(SYS_newfstatat, folder_fd, path, status, flags);
  }
  if (names_descriptor(path, flags)) {
    if (folder_fd != AT_FDCWD) {
      return call_fstat(folder_fd, status);
    }
    path = ".";
  }
  const bool follows = (flags & AT_SYMLINK_NOFOLLOW) == 0;
  if (is_in_untouched_folder(folder_fd, path)) {
    const long result =
        kernel(SYS_newfstatat, folder_fd, path, status, flags | AT_SYMLINK_NOFOLLOW);
    if (result < 0 || !follows || !S_ISLNK(status->st_mode)) {
      return result;
    }
  }
  Place place;
  if (const long error = find(folder_fd, path, follows ? LastLink::follow : LastLink::keep, place);
      error < 0) {
    return error;
  }
  if (place.is_real_only) {
    return kernel(SYS_newfstatat, AT_FDCWD, place.path.c_str(), status, flags & ~(AT_EMPTY_PATH));
  }
  *status = place.status;
  return 0;
}

long call_statx(int folder_fd, const char* path, int flags, unsigned mask, struct statx* status) {
  if (is_unchanged()) {
    return kernel(SYS_statx, folder_fd, path, flags, mask, status);
  }
  if (names_descriptor(path, flags)) {
    const long error = kernel(SYS_statx, folder_fd, "", flags, mask, status);
    if (error == 0 && S_ISDIR(status->stx_mode)) {
      struct stat shown{};
      if (kernel(SYS_fstat, folder_fd, &shown) == 0 && folder_status(folder_fd, &shown) == 0) {
        fill_statx(shown, *status);
      }
    }
    return error;
  }
  const bool follows = (flags & AT_SYMLINK_NOFOLLOW) == 0;
  if (is_in_untouched_folder(folder_fd, path)) {
    const long result =
        kernel(SYS_statx, folder_fd, path, flags | AT_SYMLINK_NOFOLLOW, mask | STATX_TYPE, status);
    if (result < 0 || !follows || !S_ISLNK(status->stx_mode)) {
      return result;
    }
  }
  Place place;
  if (const long error = find(folder_fd, path, follows ? LastLink::follow : LastLink::keep, place);
      error < 0) {
    return error;
  }
  const char* backing = place.is_real_only ? place.path.c_str() : place.backing.c_str();
  const long error = kernel(SYS_statx, AT_FDCWD, backing, flags, mask, status);
  if (error == 0 && !place.is_real_only) {
    fill_statx(place.status, *status);
  }
  return error;
}

long call_access(int folder_fd, const char* path, int wanted, int flags) {
  const auto ask = [&](int fd, const char* where) {
    const long result = kernel(SYS_faccessat2, fd, where, wanted, flags);
    return result == -ENOSYS ? kernel(SYS_faccessat, fd, where, wanted) : result;
  };
  if (is_unchanged()) {
    return ask(folder_fd, path);
  }
  const bool follows = (flags & AT_SYMLINK_NOFOLLOW) == 0;
  if (is_in_untouched_folder(folder_fd, path)) {
    char target[1];
    if (!follows || kernel(SYS_readlinkat, folder_fd, path, target, sizeof(target)) < 0) {
      return ask(folder_fd, path);
    }
  }
  Place place;
  if (const long error = find(folder_fd, path, follows ? LastLink::follow : LastLink::keep, place);
      error < 0) {
    return error;
  }
  if (place.is_real_only) {
    return ask(AT_FDCWD, place.path.c_str());
  }
  return may_access(place, wanted, flags & ~AT_EMPTY_PATH);
}

long call_readlink(int folder_fd, const char* path, char* text, size_t size) {
  if (!scratch().is_active()) {
    return kernel(SYS_readlinkat, folder_fd, path, text, size);
  }
  PathText target;
  long length = 0;
  const bool is_descriptor = path != nullptr && path[0] == '\0';
  if (is_descriptor || scratch().changes() == 0 || is_in_untouched_folder(folder_fd, path)) {
    length = kernel(SYS_readlinkat, folder_fd, path, target.data(), PathText::capacity());
  } else {
    Place place;
    if (const long error = find(folder_fd, path, LastLink::keep, place); error < 0) {
      return error;
    }
    const char* backing = place.is_real_only ? place.path.c_str() : place.backing.c_str();
    length = kernel(SYS_readlinkat, AT_FDCWD, backing, target.data(), PathText::capacity());
  }
  if (length < 0) {
    return length;
  }
  target.resize(static_cast<size_t>(length));
  scratch().to_virtual(target);
  const size_t shown = target.size() < size ? target.size() : size;
  std::memcpy(text, target.c_str(), shown);
  return static_cast<long>(shown);
}

long call_chdir(const char* path) {
  if (is_unchanged()) {
    return kernel(SYS_chdir, path);
  }
  Place place;
  if (const long error = find(AT_FDCWD, path, LastLink::follow, place); error < 0) {
    return error;
  }
  // Into the real folder where there is one: its path is the virtual one.
  const bool is_real = place.is_real || place.is_real_only;
  return kernel(SYS_chdir, is_real ? place.path.c_str() : place.backing.c_str());
}

long call_fchdir(int fd) {
  PathText path;
  if (is_unchanged() || path_of_descriptor(fd, path) < 0 || path.view().empty()) {
    return kernel(SYS_fchdir, fd);
  }
  return call_chdir(path.c_str());
}

long call_getcwd(char* text, size_t size) {
  if (!scratch().is_active()) {
    return kernel(SYS_getcwd, text, size);
  }
  PathText path;
  if (const long error = path_of_descriptor(AT_FDCWD, path); error < 0) {
    return error;
  }
  const size_t needed = std::strlen(path.c_str()) + 1;
  if (needed > size) {
    return -ERANGE;
  }
  std::memcpy(text, path.c_str(), needed);
  return static_cast<long>(needed);
}

}  // namespace gpumemprof::redirect
