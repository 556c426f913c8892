#include "redirect/calls/rename.h"

#include <cerrno>
#include <cstdio>

#include "redirect/layer.h"
#include "redirect/listing.h"
#include "redirect/scratch.h"

namespace gpumemprof::redirect {
namespace {

constexpr unsigned kNoReplace = 1;  // RENAME_NOREPLACE, RENAME_EXCHANGE: glibc has them since 2.28
constexpr unsigned kExchange = 2;

PathText written_path(const Place& place) {
  PathText path;
  scratch().written(place.path.view(), path);
  return path;
}

// Makes `to` in `written` what `from`, no folder, is.
long move_file(const Place& from, const PathText& to) {
  if (from.is_written) {
    return kernel_rename(written_path(from).c_str(), to.c_str());
  }
  PathText fresh;
  scratch().temporary(fresh);
  PathText target;
  if (from.is_link()) {
    const long size =
        kernel(SYS_readlinkat, AT_FDCWD, from.backing.c_str(), target.data(), PathText::capacity());
    if (size < 0) {
      return size;
    }
    target.resize(static_cast<size_t>(size));
  } else {
    target.assign(scratch().folder());
    target.append("/origin");
    target.append(from.path.view());
  }
  const long error = kernel(SYS_symlinkat, target.c_str(), AT_FDCWD, fresh.c_str());
  return error < 0 ? error : kernel_rename(fresh.c_str(), to.c_str());
}

// A folder of which something is real: made again below `to`, name by name.
long move_folder(const Place& from, const PathText& to) {
  if (!from.is_real) {
    return kernel_rename(written_path(from).c_str(), to.c_str());
  }
  if (const long error = kernel(SYS_mkdirat, AT_FDCWD, to.c_str(), 0700);
      error < 0 && error != -EEXIST) {
    return error;
  }
  long error = 0;
  MergedReader names(from);
  for (std::string_view name = names.next(); !name.empty() && error == 0; name = names.next()) {
    Place child;
    child.path = from.path;
    child.path.append_name(name);
    look(child, from.hides_real);
    PathText child_to(to);
    child_to.append_name(name);
    error = child.is_folder() ? move_folder(child, child_to) : move_file(child, child_to);
  }
  kernel(SYS_fchownat, AT_FDCWD, to.c_str(), from.status.st_uid, from.status.st_gid, 0);
  kernel(SYS_fchmodat, AT_FDCWD, to.c_str(), from.status.st_mode & 07777U);
  const timespec times[2] = {from.status.st_atim, from.status.st_mtim};
  kernel(SYS_utimensat, AT_FDCWD, to.c_str(), times, 0);
  return error;
}

long may_rename(const Place& from, const Place& to, unsigned flags) {
  if (!from.exists()) {
    return -ENOENT;
  }
  if ((from.wants_folder || (to.wants_folder && !to.is_folder())) && !from.is_folder()) {
    return -ENOTDIR;
  }
  if ((flags & kNoReplace) != 0 && to.exists()) {
    return -EEXIST;
  }
  if (from.is_folder() && to.path.size() > from.path.size() &&
      is_below(to.path.view(), from.path.view())) {
    return -EINVAL;
  }
  if (is_below(from.path.view(), to.path.view()) && to.path.size() < from.path.size()) {
    return -ENOTEMPTY;
  }
  if ((flags & kExchange) == 0 && to.exists()) {
    if (from.is_folder() != to.is_folder()) {
      return from.is_folder() ? -ENOTDIR : -EISDIR;
    }
    if (to.is_folder() && !is_empty_folder(to)) {
      return -ENOTEMPTY;
    }
  }
  if (const long error = may_remove(from); error < 0) {
    return error;
  }
  return to.exists() ? may_remove(to) : may_change_names(to);
}

long move(const Place& from, const Place& to) {
  scratch().touch(to.path.view());
  scratch().touch(from.path.view());
  if (const long error = make_folders(to.path.view()); error < 0) {
    return error;
  }
  const PathText target = written_path(to);
  if (from.is_folder() && to.is_written) {
    remove_tree(target);
  }
  if (const long error = from.is_folder() ? move_folder(from, target) : move_file(from, target);
      error < 0) {
    return error;
  }
  if (const long error = hide_real(to); error < 0) {
    return error;
  }
  if (const long error = hide_real(from); error < 0) {
    return error;
  }
  remove_written(from.path.view());
  note_folder_change(from.path.view());
  note_folder_change(to.path.view());
  scratch().note_folder_change();
  return 0;
}

long exchange(Place& from, Place& to) {
  Place aside;
  aside.path = from.path;
  aside.path.append(".exchanged-");
  aside.path.append_hex(scratch().new_number());
  look_anew(aside);
  if (const long error = move(from, aside); error < 0) {
    return error;
  }
  look_anew(from);
  if (const long error = move(to, from); error < 0) {
    return error;
  }
  look_anew(aside);
  look_anew(to);
  return move(aside, to);
}

// Between a folder that is real and one that is not: as between two file systems, but files are
// copied at once.
long rename_across(const Place& from, const Place& to) {
  if (!from.exists()) {
    return -ENOENT;
  }
  if (!S_ISREG(from.status.st_mode) || to.is_folder()) {
    return -EXDEV;
  }
  PathText fresh;
  if (to.is_real_only) {
    fresh = to.path;
    fresh.append(".renamed-");
    fresh.append_hex(scratch().new_number());
  } else {
    if (const long error = may_change_names(to); error < 0) {
      return error;
    }
    scratch().temporary(fresh);
  }
  if (const long error =
          copy_file(from.backing.c_str(), from.status, fresh.c_str(), Content::copied);
      error < 0) {
    return error;
  }
  const ChangeLock lock;
  if (to.is_real_only) {
    if (const long error = kernel_rename(fresh.c_str(), to.path.c_str()); error < 0) {
      return error;
    }
    scratch().touch(from.path.view());
    const long error = hide_real(from);
    remove_written(from.path.view());
    scratch().note_folder_change();
    return error;
  }
  scratch().touch(to.path.view());
  long error = make_folders(to.path.view());
  if (error == 0) {
    error = kernel_rename(fresh.c_str(), written_path(to).c_str());
    scratch().note_folder_change();
  }
  return error < 0 ? error : kernel(SYS_unlinkat, AT_FDCWD, from.path.c_str(), 0);
}

// A new name for a file that the kernel knows by path alone: an unnamed one, or one of a folder
// that is real.
long link_real(const Place& from, const Place& to) {
  const PathText target = to.is_real_only ? to.path : written_path(to);
  if (!to.is_real_only) {
    scratch().touch(to.path.view());
    if (const long error = make_folders(to.path.view()); error < 0) {
      return error;
    }
  }
  const long error = kernel(SYS_linkat, AT_FDCWD, from.backing.c_str(), AT_FDCWD, target.c_str(),
                            is_below(from.path.view(), "/proc") ? AT_SYMLINK_FOLLOW : 0);
  // Another file system, or a file that must not change through its second name.
  if (error != -EXDEV || !S_ISREG(from.status.st_mode)) {
    return error;
  }
  return copy_file(from.backing.c_str(), from.status, target.c_str(), Content::copied);
}

}  // namespace

long call_rename(int from_fd, const char* from_path, int to_fd, const char* to_path,
                 unsigned flags) {
  if (!scratch().is_active()) {
    return kernel(SYS_renameat2, from_fd, from_path, to_fd, to_path, flags);
  }
  Place from;
  if (const long error = resolve(from_fd, from_path, LastLink::keep, from); error < 0) {
    return error;
  }
  Place to;
  if (const long error = resolve(to_fd, to_path, LastLink::keep, to); error < 0) {
    return error;
  }
  if (from.is_real_only && to.is_real_only) {
    return kernel_rename(from.path.c_str(), to.path.c_str(), flags);
  }
  if (from.is_real_only != to.is_real_only) {
    return flags != 0 ? -EXDEV : rename_across(from, to);
  }
  if ((flags & ~(kNoReplace | kExchange)) != 0 || flags == (kNoReplace | kExchange)) {
    return -EINVAL;
  }
  const ChangeLock lock;
  look_anew(from);
  look_anew(to);
  if (from.exists() && from.path.view() == to.path.view()) {
    return 0;
  }
  if (const long error = may_rename(from, to, flags); error < 0) {
    return error;
  }
  if ((flags & kExchange) != 0) {
    return to.exists() ? exchange(from, to) : -ENOENT;
  }
  // Two names of one file: nothing happens.
  if (from.is_written && to.is_written && !from.is_renamed && !to.is_renamed && !from.is_folder() &&
      from.status.st_ino == to.status.st_ino) {
    return 0;
  }
  return move(from, to);
}

long call_link(int from_fd, const char* from_path, int to_fd, const char* to_path, int flags) {
  const bool is_descriptor = (flags & AT_EMPTY_PATH) != 0 && from_path[0] == '\0';
  if (!scratch().is_active()) {
    return kernel(SYS_linkat, from_fd, from_path, to_fd, to_path, flags);
  }
  PathText link;
  if (is_descriptor) {
    descriptor_link(from_fd, link);
  }
  const bool follows = is_descriptor || (flags & AT_SYMLINK_FOLLOW) != 0;
  Place from;
  if (const long error = resolve(from_fd, is_descriptor ? link.c_str() : from_path,
                                 follows ? LastLink::follow : LastLink::keep, from);
      error < 0) {
    return error;
  }
  Place to;
  if (const long error = resolve(to_fd, to_path, LastLink::keep, to); error < 0) {
    return error;
  }
  if (!from.exists()) {
    return -ENOENT;
  }
  if (to.exists()) {
    return -EEXIST;
  }
  if (from.is_folder()) {
    return -EPERM;
  }
  const ChangeLock lock;
  if (!to.is_real_only) {
    // As kernels protect hard links by default (fs.protected_hardlinks).
    if (may_change_metadata(from, Allowed::owner) < 0 && may_write(from) < 0) {
      return -EPERM;
    }
    if (const long error = may_change_names(to); error < 0) {
      return error;
    }
  }
  if (from.is_real_only) {
    return link_real(from, to);
  }
  look_anew(from);
  if (const long error = copy_up(from, Content::copied); error < 0) {
    return error;
  }
  return link_real(from, to);
}

}  // namespace gpumemprof::redirect
