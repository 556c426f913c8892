#include <fcntl.h>

#include <cerrno>

#include "redirect/calls/calls.h"
#include "redirect/kernel.h"
#include "redirect/layer.h"
#include "redirect/listing.h"
#include "redirect/place.h"
#include "redirect/scratch.h"
#include "redirect/untouched.h"

namespace gpumemprof::redirect {
namespace {

bool may_write_with(int flags) { return (flags & O_ACCMODE) != O_RDONLY; }

// An unnamed file; it gets a name, if ever, through /proc.
long open_unnamed(const Place& folder, int flags, mode_t mode) {
  if (!folder.is_folder()) {
    return folder.exists() ? -ENOTDIR : -ENOENT;
  }
  if (const long error = may_access(folder, W_OK | X_OK, AT_EACCESS); error < 0) {
    return error;
  }
  PathText temporary(scratch().folder());
  temporary.append("/temporary");
  return kernel_open(temporary.c_str(), flags, mode);
}

long create(Place& place, int flags, mode_t mode) {
  if (const long error = may_change_names(place); error < 0) {
    return error;
  }
  scratch().touch(place.path.view());
  PathText written;
  {
    const ChangeLock lock;
    if (const long error = make_folders(place.path.view()); error < 0) {
      return error;
    }
  }
  scratch().written(place.path.view(), written);
  if (written.is_too_long()) {
    return -ENAMETOOLONG;
  }
  const long fd = kernel_open(written.c_str(), flags, mode);
  scratch().touch(place.path.view());
  return fd;
}

long open_to_change(Place& place, int flags) {
  if (place.is_link()) {
    return -ELOOP;
  }
  constexpr int kNotForCopy = O_CREAT | O_EXCL;
  if (!S_ISREG(place.status.st_mode)) {
    return kernel_open(place.backing.c_str(), flags & ~kNotForCopy);
  }
  if (place.is_borrowed()) {
    if (const long error = may_write(place); error < 0) {
      return error;
    }
    const ChangeLock lock;
    look_anew(place);
    if (!place.exists()) {
      return -ENOENT;
    }
    const Content content = (flags & O_TRUNC) != 0 ? Content::empty : Content::copied;
    if (const long error = copy_up(place, content); error < 0) {
      return error;
    }
    if (content == Content::empty) {
      kernel(SYS_utimensat, AT_FDCWD, place.backing.c_str(), nullptr, 0);
    }
  }
  return kernel_open(place.backing.c_str(), flags & ~kNotForCopy);
}

}  // namespace

long call_open(int folder_fd, const char* path, int flags, mode_t mode) {
  const Scratch& shared = scratch();
  const bool is_unnamed = (flags & O_TMPFILE) == O_TMPFILE;
  const bool changes =
      (flags & O_PATH) == 0 && (may_write_with(flags) || (flags & (O_CREAT | O_TRUNC)) != 0);
  if (!shared.is_active() || (!changes && shared.changes() == 0)) {
    return kernel(SYS_openat, folder_fd, path, flags, mode);
  }
  if (!changes && (flags & O_PATH) == 0 && is_in_untouched_folder(folder_fd, path)) {
    const long fd = kernel(SYS_openat, folder_fd, path, flags | O_NOFOLLOW, mode);
    if ((fd != -ELOOP && fd != -ENOTDIR) || (flags & O_NOFOLLOW) != 0) {
      return fd;
    }
  }
  const bool is_new = (flags & O_CREAT) != 0 && (flags & O_EXCL) != 0;
  Place place;
  if (const long error =
          resolve(folder_fd, path,
                  (flags & O_NOFOLLOW) != 0 || is_new ? LastLink::keep : LastLink::follow, place);
      error < 0) {
    return error;
  }
  if (place.is_real_only) {
    if (place.wants_folder) {
      place.path.append("/");
    }
    return kernel_open(place.path.c_str(), flags, mode);
  }
  if (place.wants_folder && (flags & O_CREAT) != 0) {
    return -EISDIR;
  }
  if (is_unnamed) {
    return open_unnamed(place, flags, mode);
  }
  if (!place.exists()) {
    return (flags & O_CREAT) != 0 ? create(place, flags, mode) : -ENOENT;
  }
  if (is_new) {
    return -EEXIST;
  }
  if (place.is_folder()) {
    return changes ? -EISDIR : open_folder(place, flags);
  }
  if ((flags & O_DIRECTORY) != 0 || place.wants_folder) {
    return -ENOTDIR;
  }
  // O_CREAT alone changes nothing about a file that exists.
  if (changes && (may_write_with(flags) || (flags & O_TRUNC) != 0)) {
    return open_to_change(place, flags);
  }
  return kernel_open(place.backing.c_str(), flags & ~O_CREAT);
}

long call_truncate(const char* path, off_t size) {
  if (!scratch().is_active()) {
    return kernel(SYS_truncate, path, size);
  }
  if (size < 0) {
    return -EINVAL;
  }
  const long fd = call_open(AT_FDCWD, path, O_WRONLY | O_CLOEXEC | O_NONBLOCK, 0);
  const Descriptor file(fd);
  return file.is_open() ? kernel(SYS_ftruncate, file.get(), size) : fd;
}

}  // namespace gpumemprof::redirect
