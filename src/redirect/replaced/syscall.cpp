// syscall(2), for the calls that are replaced elsewhere, and those that must not pass.
#include <cerrno>
#include <cstdarg>

#include "redirect/calls/calls.h"
#include "redirect/calls/rename.h"
#include "redirect/calls/start.h"
#include "redirect/kernel.h"
#include "redirect/place.h"
#include "redirect/replaced/replaced.h"
#include "redirect/scratch.h"

using namespace gpumemprof::redirect;  // NOLINT(google-build-using-namespace): ours are C functions

namespace {

// One argument of a system call, as what the call takes it for.
struct Raw {
  long value;
  // NOLINTBEGIN(google-explicit-constructor, performance-no-int-to-ptr)
  template <typename T>
  operator T*() const {
    return reinterpret_cast<T*>(value);
  }
  operator int() const { return static_cast<int>(value); }
  operator unsigned() const { return static_cast<unsigned>(value); }
  operator long() const { return value; }
  operator size_t() const { return static_cast<size_t>(value); }
  // NOLINTEND(google-explicit-constructor, performance-no-int-to-ptr)
};

struct OpenHow {
  uint64_t flags;
  uint64_t mode;
};

constexpr long kFchmodat2 = 452;  // since Linux 6.6

LastLink last_link(int flags) {
  return (flags & AT_SYMLINK_NOFOLLOW) != 0 ? LastLink::keep : LastLink::follow;
}

// The calls that take a folder. False: not one of them.
bool redirect_at(long number, const Raw (&a)[6], long& result) {
  switch (number) {
    case SYS_openat:
      result = call_open(a[0], a[1], a[2], a[3]);
      return true;
    case SYS_newfstatat:
      result = call_stat(a[0], a[1], a[2], a[3]);
      return true;
    case SYS_statx:
      result = call_statx(a[0], a[1], a[2], a[3], a[4]);
      return true;
    case SYS_faccessat:
      result = call_access(a[0], a[1], a[2], 0);
      return true;
    case SYS_faccessat2:
      result = call_access(a[0], a[1], a[2], a[3]);
      return true;
    case SYS_readlinkat:
      result = call_readlink(a[0], a[1], a[2], a[3]);
      return true;
    case SYS_unlinkat:
      result = call_unlink(a[0], a[1], a[2]);
      return true;
    case SYS_mkdirat:
      result = call_mkdir(a[0], a[1], a[2]);
      return true;
    case SYS_mknodat:
      result = call_mknod(a[0], a[1], a[2], static_cast<unsigned>(a[3]));
      return true;
    case SYS_symlinkat:
      result = call_symlink(a[0], a[1], a[2]);
      return true;
    case SYS_linkat:
      result = call_link(a[0], a[1], a[2], a[3], a[4]);
      return true;
    case SYS_renameat2:
      result = call_rename(a[0], a[1], a[2], a[3], a[4]);
      return true;
    case SYS_renameat:
      result = call_rename(a[0], a[1], a[2], a[3], 0);
      return true;
    case SYS_fchmodat:
      result = call_chmod(a[0], a[1], a[2], 0);
      return true;
    case SYS_fchownat:
      result = call_chown(a[0], a[1], a[2], a[3], a[4]);
      return true;
    case SYS_utimensat:
      result = call_utimens(a[0], a[1], a[2], a[3]);
      return true;
    case SYS_execveat:
      result = call_execve(a[0], a[1], a[2], a[3], last_link(a[4]));
      return true;
    case SYS_openat2: {
      const OpenHow* how = a[2];
      result = call_open(a[0], a[1], static_cast<int>(how->flags), static_cast<mode_t>(how->mode));
      return true;
    }
    default:
      return false;
  }
}

bool redirect_plain(long number, const Raw (&a)[6], long& result) {
  switch (number) {
    case SYS_fstat:
      result = call_fstat(a[0], a[1]);
      return true;
    case SYS_truncate:
      result = call_truncate(a[0], static_cast<long>(a[1]));
      return true;
    case SYS_chdir:
      result = call_chdir(a[0]);
      return true;
    case SYS_fchdir:
      result = call_fchdir(a[0]);
      return true;
    case SYS_getcwd:
      result = call_getcwd(a[0], a[1]);
      return true;
    case SYS_fchmod:
      result = call_chmod(a[0], nullptr, a[1], 0);
      return true;
    case SYS_fchown:
      result = call_chown(a[0], nullptr, a[1], a[2], 0);
      return true;
    case SYS_execve:
      result = call_execve(AT_FDCWD, a[0], a[1], a[2], LastLink::follow);
      return true;
    case kFchmodat2:
      result = call_chmod(a[0], a[1], a[2], a[3]);
      return true;
    case SYS_lsetxattr:
      result = call_setxattr(AT_FDCWD, a[0], a[1], a[2], a[3], a[4], AT_SYMLINK_NOFOLLOW);
      return true;
    case SYS_lremovexattr:
      result = call_removexattr(AT_FDCWD, a[0], a[1], AT_SYMLINK_NOFOLLOW);
      return true;
    case SYS_setxattr:
      result = call_setxattr(AT_FDCWD, a[0], a[1], a[2], a[3], a[4], 0);
      return true;
    case SYS_fsetxattr:
      result = call_setxattr(a[0], nullptr, a[1], a[2], a[3], a[4], 0);
      return true;
    case SYS_removexattr:
      result = call_removexattr(AT_FDCWD, a[0], a[1], 0);
      return true;
    case SYS_fremovexattr:
      result = call_removexattr(a[0], nullptr, a[1], 0);
      return true;
    // Its work is done by the kernel, past every function.
    case SYS_io_uring_setup:
      result = -ENOSYS;
      return true;
    default:
      return false;
  }
}

// What newer machines have no more.
bool redirect_old([[maybe_unused]] long number, [[maybe_unused]] const Raw (&a)[6],
                  [[maybe_unused]] long& result) {
#if defined(__x86_64__)
  constexpr int kHere = AT_FDCWD;
  switch (number) {
    case SYS_open:
      result = call_open(kHere, a[0], a[1], a[2]);
      return true;
    case SYS_creat:
      result = call_open(kHere, a[0], O_WRONLY | O_CREAT | O_TRUNC, a[1]);
      return true;
    case SYS_stat:
      result = call_stat(kHere, a[0], a[1], 0);
      return true;
    case SYS_lstat:
      result = call_stat(kHere, a[0], a[1], AT_SYMLINK_NOFOLLOW);
      return true;
    case SYS_access:
      result = call_access(kHere, a[0], a[1], 0);
      return true;
    case SYS_readlink:
      result = call_readlink(kHere, a[0], a[1], a[2]);
      return true;
    case SYS_unlink:
      result = call_unlink(kHere, a[0], 0);
      return true;
    case SYS_rmdir:
      result = call_unlink(kHere, a[0], AT_REMOVEDIR);
      return true;
    case SYS_mkdir:
      result = call_mkdir(kHere, a[0], a[1]);
      return true;
    case SYS_mknod:
      result = call_mknod(kHere, a[0], a[1], static_cast<unsigned>(a[2]));
      return true;
    case SYS_symlink:
      result = call_symlink(a[0], kHere, a[1]);
      return true;
    case SYS_link:
      result = call_link(kHere, a[0], kHere, a[1], 0);
      return true;
    case SYS_rename:
      result = call_rename(kHere, a[0], kHere, a[1], 0);
      return true;
    case SYS_chmod:
      result = call_chmod(kHere, a[0], a[1], 0);
      return true;
    case SYS_chown:
      result = call_chown(kHere, a[0], a[1], a[2], 0);
      return true;
    // Long superseded by utimensat, which is redirected.
    case SYS_utime:
    case SYS_utimes:
    case SYS_futimesat:
      result = -ENOSYS;
      return true;
    case SYS_lchown:
      result = call_chown(kHere, a[0], a[1], a[2], AT_SYMLINK_NOFOLLOW);
      return true;
    default:
      return false;
  }
#else
  return false;
#endif
}

}  // namespace

GPUMEMPROF_REPLACE(long, syscall, (long number, ...)) {
  va_list rest;
  va_start(rest, number);
  Raw a[6];
  for (Raw& argument : a) {
    argument.value = va_arg(rest, long);
  }
  va_end(rest);
  long result = 0;
  if (!scratch().is_active() ||
      !(redirect_at(number, a, result) || redirect_plain(number, a, result) ||
        redirect_old(number, a, result))) {
    result = kernel(number, a[0].value, a[1].value, a[2].value, a[3].value, a[4].value, a[5].value);
  }
  return finish(result);
}
