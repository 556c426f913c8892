#include "redirect/layer.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <cerrno>

#include "redirect/folder_reader.h"
#include "redirect/kernel.h"
#include "redirect/scratch.h"

namespace gpumemprof::redirect {
namespace {

constexpr unsigned long kShareBytes =
    0x40049409;  // FICLONE: the copy shares the bytes until one changes

// One stretch of data, between holes.
long copy_stretch(int from, int to, off_t at, off_t end) {
  while (at < end) {
    off_t in = at;
    off_t out = at;
    long copied = kernel(SYS_copy_file_range, from, &in, to, &out, end - at, 0);
    if (copied < 0) {
      // Other file systems, older kernels.
      kernel(SYS_lseek, to, at, SEEK_SET);
      in = at;
      copied = kernel(SYS_sendfile, to, from, &in, end - at);
    }
    if (copied < 0) {
      return copied;
    }
    if (copied == 0) {
      return 0;  // it has become shorter
    }
    at += copied;
  }
  return 0;
}

long copy_bytes(int from, int to, off_t size) {
  if (size == 0 || kernel(SYS_ioctl, to, kShareBytes, from) == 0) {
    return 0;
  }
  off_t at = 0;
  while (at < size) {
    const long data = kernel(SYS_lseek, from, at, SEEK_DATA);
    if (data == -ENXIO) {
      break;
    }
    const off_t start = data < 0 ? at : data;
    const long hole = data < 0 ? size : kernel(SYS_lseek, from, start, SEEK_HOLE);
    const off_t end = hole < 0 || hole > size ? size : hole;
    if (const long error = copy_stretch(from, to, start, end); error < 0) {
      return error;
    }
    at = end;
  }
  return kernel(SYS_ftruncate, to, size);
}

void copy_attributes(int from, int to) {
  char names[1024];
  const long size = kernel(SYS_flistxattr, from, names, sizeof(names));
  for (long at = 0; at < size;) {
    const char* name = names + at;
    char value[1024];
    const long length = kernel(SYS_fgetxattr, from, name, value, sizeof(value));
    if (length >= 0) {
      kernel(SYS_fsetxattr, to, name, value, length, 0);
    }
    at += static_cast<long>(std::strlen(name)) + 1;
  }
}

void set_times(const char* path, const struct stat& status) {
  const timespec times[2] = {status.st_atim, status.st_mtim};
  kernel(SYS_utimensat, AT_FDCWD, path, times, AT_SYMLINK_NOFOLLOW);
}

// A folder that holds what is written below the real one.
long make_holder(const char* written, const struct stat& real) {
  const long made = kernel(SYS_mkdirat, AT_FDCWD, written, 0700);
  if (made < 0) {
    return made;
  }
  kernel(SYS_fchownat, AT_FDCWD, written, real.st_uid, real.st_gid, 0);
  kernel(SYS_fchmodat, AT_FDCWD, written, (real.st_mode & 07777U) | S_IRWXU);
  set_times(written, real);
  return 0;
}

// The folder that a place is in.
void look_at_parent(const Place& place, Place& parent) {
  parent.path.assign(place.path.parent());
  look_anew(parent);
}

}  // namespace

long copy_file(const char* from, const struct stat& status, const char* to, Content content) {
  const Descriptor in(kernel_open(from, O_RDONLY | O_CLOEXEC | O_NOCTTY));
  if (!in.is_open() && content == Content::copied) {
    return in.get();
  }
  const Descriptor out(kernel_open(to, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600));
  if (!out.is_open()) {
    return out.get();
  }
  long error = content == Content::copied ? copy_bytes(in.get(), out.get(), status.st_size) : 0;
  if (error == 0) {
    kernel(SYS_fchown, out.get(), status.st_uid, status.st_gid);
    kernel(SYS_fchmod, out.get(), status.st_mode & 07777U);
    if (in.is_open()) {
      copy_attributes(in.get(), out.get());
    }
    set_times(to, status);
  } else {
    kernel(SYS_unlinkat, AT_FDCWD, to, 0);
  }
  return error;
}

long make_folders(std::string_view path) {
  const Scratch& shared = scratch();
  PathText written;
  for (size_t slash = path.find('/', 1); slash != std::string_view::npos;
       slash = path.find('/', slash + 1)) {
    const PathText folder(part_of(path, 0, slash));
    shared.written(folder.view(), written);
    struct stat status{};
    if (kernel_lstat(written.c_str(), status) == 0) {
      continue;
    }
    struct stat real{};
    if (const long error = kernel_lstat(folder.c_str(), real); error < 0) {
      return error;
    }
    // A folder that is only made here is no change of the folder it is in.
    PathText parent(written.parent());
    struct stat before{};
    kernel_lstat(parent.c_str(), before);
    if (const long error = make_holder(written.c_str(), real); error < 0 && error != -EEXIST) {
      return error;
    }
    set_times(parent.c_str(), before);
  }
  return 0;
}

long copy_up(Place& place, Content content) {
  if (place.is_written && !place.is_renamed) {
    return 0;
  }
  const Scratch& shared = scratch();
  shared.touch(place.path.view());
  if (const long error = make_folders(place.path.view()); error < 0) {
    return error;
  }
  PathText written;
  shared.written(place.path.view(), written);
  if (written.is_too_long()) {
    return -ENAMETOOLONG;
  }
  PathText folder(written.parent());
  struct stat before{};
  kernel_lstat(folder.c_str(), before);
  long error = -EPERM;  // of a device, a pipe or a socket there is no copy
  if (place.is_folder()) {
    error = make_holder(written.c_str(), place.status);
  } else if (S_ISREG(place.status.st_mode)) {
    PathText fresh;
    shared.temporary(fresh);
    error = copy_file(place.backing.c_str(), place.status, fresh.c_str(), content);
    if (error == 0) {
      error = kernel_rename(fresh.c_str(), written.c_str());
    }
  } else if (place.is_link()) {
    PathText target;
    const long size = kernel(SYS_readlinkat, AT_FDCWD, place.backing.c_str(), target.data(),
                             PathText::capacity());
    if (size >= 0) {
      target.resize(static_cast<size_t>(size));
      error = kernel(SYS_symlinkat, target.c_str(), AT_FDCWD, written.c_str());
      kernel(SYS_fchownat, AT_FDCWD, written.c_str(), place.status.st_uid, place.status.st_gid,
             AT_SYMLINK_NOFOLLOW);
      set_times(written.c_str(), place.status);
    }
  }
  set_times(folder.c_str(), before);
  if (error == 0) {
    place.is_written = true;
    place.is_renamed = false;
    place.backing = written;
  }
  return error;
}

long may_access(const Place& place, int wanted, int flags) {
  const char* judged = place.backing.c_str();
  // The real folder decides, unless the program gave the folder another mode.
  struct stat real{};
  if (place.is_merged() && place.is_folder() && kernel_lstat(place.path.c_str(), real) == 0 &&
      real.st_mode == place.status.st_mode) {
    judged = place.path.c_str();
  }
  long result = kernel(SYS_faccessat2, AT_FDCWD, judged, wanted, flags);
  if (result == -ENOSYS) {
    result = kernel(SYS_faccessat, AT_FDCWD, judged, wanted);
  }
  return result;
}

long may_write(const Place& place) { return may_access(place, W_OK, AT_EACCESS); }

long may_change_metadata(const Place& place, Allowed allowed) {
  const long writable = may_write(place);
  if (writable == -EROFS) {
    return -EROFS;
  }
  const auto user = static_cast<uid_t>(kernel(SYS_geteuid));
  if (user == 0 || place.status.st_uid == user) {
    return 0;
  }
  return allowed == Allowed::writer ? writable : -EPERM;
}

long may_change_names(const Place& place) {
  Place parent;
  look_at_parent(place, parent);
  if (!parent.exists()) {
    return parent.error != 0 ? parent.error : -ENOENT;
  }
  return may_access(parent, W_OK | X_OK, AT_EACCESS);
}

long may_remove(const Place& place) {
  if (const long error = may_change_names(place); error < 0) {
    return error;
  }
  const auto user = static_cast<uid_t>(kernel(SYS_geteuid));
  Place parent;
  look_at_parent(place, parent);
  const bool is_kept = (parent.status.st_mode & S_ISVTX) != 0 && user != 0 &&
                       place.status.st_uid != user && parent.status.st_uid != user;
  return is_kept ? -EPERM : 0;
}

void remove_tree(const PathText& path) {
  if (kernel(SYS_unlinkat, AT_FDCWD, path.c_str(), 0) != -EISDIR) {
    return;
  }
  kernel(SYS_fchmodat, AT_FDCWD, path.c_str(), 0700);
  // Names are read anew after each round, since removing them moves the others.
  bool is_changing = true;
  while (is_changing) {
    is_changing = false;
    FolderReader reader(path.c_str());
    if (!reader.is_open()) {
      return;
    }
    for (std::string_view name = reader.next(); !name.empty(); name = reader.next()) {
      PathText below(path);
      below.append_name(name);
      long error = kernel(SYS_unlinkat, AT_FDCWD, below.c_str(), 0);
      if (error == -EISDIR) {
        remove_tree(below);
        struct stat status{};
        error = kernel_lstat(below.c_str(), status) == 0 ? -ENOTEMPTY : 0;
      }
      is_changing = is_changing || error == 0;
    }
  }
  kernel(SYS_unlinkat, AT_FDCWD, path.c_str(), AT_REMOVEDIR);
}

void remove_written(std::string_view path) {
  PathText written;
  scratch().written(path, written);
  remove_tree(written);
}

long hide_real(const Place& place) {
  const Scratch& shared = scratch();
  struct stat real{};
  if (place.hides_real || kernel_lstat(place.path.c_str(), real) < 0) {
    return 0;
  }
  shared.touch(place.path.view());
  PathText mark;
  for (size_t slash = place.path.view().find('/', 1); slash != std::string_view::npos;
       slash = place.path.view().find('/', slash + 1)) {
    shared.removed(part_of(place.path.view(), 0, slash), mark);
    kernel(SYS_mkdirat, AT_FDCWD, mark.c_str(), 0700);
  }
  shared.removed(place.path.view(), mark);
  // Marks below it say nothing that it does not.
  remove_tree(mark);
  const Descriptor made(kernel_open(mark.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0600));
  return made.is_open() ? 0 : made.get();
}

void note_folder_change(std::string_view path) {
  if (make_folders(path) < 0) {
    return;
  }
  PathText written;
  scratch().written(path, written);
  const PathText folder(written.parent());
  kernel(SYS_utimensat, AT_FDCWD, folder.c_str(), nullptr, 0);
}

}  // namespace gpumemprof::redirect
