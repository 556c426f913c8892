#include <cerrno>

#include "redirect/calls/calls.h"
#include "redirect/kernel.h"
#include "redirect/layer.h"
#include "redirect/listing.h"
#include "redirect/place.h"
#include "redirect/scratch.h"

namespace gpumemprof::redirect {
namespace {

// Makes something new at a path, by a system call that gets the path below `written`.
template <typename Make>
long make_new(int folder_fd, const char* path, bool is_folder, Make make) {
  if (!scratch().is_active()) {
    return make(folder_fd, path);
  }
  Place place;
  if (const long error = resolve(folder_fd, path, LastLink::keep, place); error < 0) {
    return error;
  }
  if (place.is_real_only) {
    return make(AT_FDCWD, place.path.c_str());
  }
  const ChangeLock lock;
  look_anew(place);
  if (place.exists()) {
    return -EEXIST;
  }
  if (place.wants_folder && !is_folder) {
    return -ENOENT;
  }
  if (const long error = may_change_names(place); error < 0) {
    return error;
  }
  scratch().touch(place.path.view());
  if (const long error = make_folders(place.path.view()); error < 0) {
    return error;
  }
  PathText written;
  scratch().written(place.path.view(), written);
  return written.is_too_long() ? -ENAMETOOLONG : make(AT_FDCWD, written.c_str());
}

}  // namespace

long call_unlink(int folder_fd, const char* path, int flags) {
  if (!scratch().is_active()) {
    return kernel(SYS_unlinkat, folder_fd, path, flags);
  }
  Place place;
  if (const long error = resolve(folder_fd, path, LastLink::keep, place); error < 0) {
    return error;
  }
  if (place.is_real_only) {
    return kernel(SYS_unlinkat, AT_FDCWD, place.path.c_str(), flags);
  }
  const ChangeLock lock;
  look_anew(place);
  if (!place.exists()) {
    return place.error != 0 ? place.error : -ENOENT;
  }
  const bool removes_folder = (flags & AT_REMOVEDIR) != 0;
  if (removes_folder != place.is_folder()) {
    return removes_folder ? -ENOTDIR : -EISDIR;
  }
  if (place.wants_folder && !removes_folder) {
    return -ENOTDIR;
  }
  if (removes_folder && !is_empty_folder(place)) {
    return -ENOTEMPTY;
  }
  if (const long error = may_remove(place); error < 0) {
    return error;
  }
  scratch().touch(place.path.view());
  const bool may_lead_elsewhere = !S_ISREG(place.status.st_mode);
  const long error = hide_real(place);
  remove_written(place.path.view());
  note_folder_change(place.path.view());
  if (may_lead_elsewhere) {
    scratch().note_folder_change();
  }
  return error;
}

long call_mkdir(int folder_fd, const char* path, mode_t mode) {
  return make_new(folder_fd, path, true,
                  [&](int fd, const char* where) { return kernel(SYS_mkdirat, fd, where, mode); });
}

long call_mknod(int folder_fd, const char* path, mode_t mode, dev_t device) {
  return make_new(folder_fd, path, false, [&](int fd, const char* where) {
    return kernel(SYS_mknodat, fd, where, mode, device);
  });
}

long call_symlink(const char* target, int folder_fd, const char* path) {
  return make_new(folder_fd, path, false, [&](int fd, const char* where) {
    return kernel(SYS_symlinkat, target, fd, where);
  });
}

}  // namespace gpumemprof::redirect
