// Changing: names, modes, owners, times, attributes, sockets.
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>
#include <utime.h>

#include <cstddef>

#include "redirect/calls/calls.h"
#include "redirect/calls/rename.h"
#include "redirect/kernel.h"
#include "redirect/layer.h"
#include "redirect/place.h"
#include "redirect/replaced/replaced.h"
#include "redirect/scratch.h"

using namespace gpumemprof::redirect;  // NOLINT(google-build-using-namespace): ours are C functions

namespace {

int done(long result) { return static_cast<int>(finish(result)); }

int set_file_times(int fd, const char* path, const timeval* times, int flags) {
  if (times == nullptr) {
    return done(call_utimens(fd, path, nullptr, flags));
  }
  timespec exact[2];
  for (int at = 0; at < 2; ++at) {
    exact[at] = {times[at].tv_sec, times[at].tv_usec * 1000};
  }
  return done(call_utimens(fd, path, exact, flags));
}

long remove_any(const char* path) {
  const long result = call_unlink(AT_FDCWD, path, 0);
  return result == -EISDIR ? call_unlink(AT_FDCWD, path, AT_REMOVEDIR) : result;
}

constexpr size_t kPathStart = offsetof(sockaddr_un, sun_path);

// A socket's address with a path that the kernel finds. Addresses are short: what does not fit goes
// through the open folder, and the program is told that path, which only it can use.
class SocketAddress {
 public:
  SocketAddress(const sockaddr* given, socklen_t size, bool makes) : folder_(-1) {
    if (!scratch().is_active() || given == nullptr || given->sa_family != AF_UNIX ||
        size <= kPathStart || size > sizeof(address_)) {
      return;
    }
    std::memcpy(&address_, given, size);
    if (address_.sun_path[0] == '\0') {
      return;
    }
    PathText path(
        std::string_view(address_.sun_path, strnlen(address_.sun_path, size - kPathStart)));
    Place place;
    error_ = resolve(AT_FDCWD, path.c_str(), LastLink::follow, place);
    if (error_ < 0 || place.is_real_only || (!makes && !place.is_written)) {
      return;
    }
    if (makes) {
      prepare(place);
    }
    if (error_ < 0) {
      return;
    }
    scratch().written(place.path.view(), path);
    if (path.size() >= sizeof(address_.sun_path)) {
      const PathText parent(path.parent());
      folder_ = static_cast<int>(kernel_open(parent.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC));
      descriptor_link(folder_, path);
      path.append_name(place.path.name());
    }
    if (path.size() >= sizeof(address_.sun_path)) {
      error_ = -ENAMETOOLONG;
      return;
    }
    std::memcpy(address_.sun_path, path.c_str(), path.size() + 1);
    size_ = static_cast<socklen_t>(kPathStart + path.size() + 1);
  }
  SocketAddress(const SocketAddress&) = delete;
  SocketAddress& operator=(const SocketAddress&) = delete;
  ~SocketAddress() {
    if (folder_ >= 0) {
      kernel(SYS_close, folder_);
    }
  }

  long call(long number, int socket, const sockaddr* given, socklen_t size) const {
    if (error_ < 0) {
      return error_;
    }
    return size_ == 0 ? kernel(number, socket, given, size)
                      : kernel(number, socket, &address_, size_);
  }

 private:
  void prepare(Place& place) {
    const ChangeLock lock;
    look_anew(place);
    error_ = place.exists() ? -EADDRINUSE : may_change_names(place);
    if (error_ == 0) {
      scratch().touch(place.path.view());
      error_ = make_folders(place.path.view());
    }
  }

  int folder_;
  long error_ = 0;
  sockaddr_un address_{};
  socklen_t size_ = 0;
};

// The program learns its own path, which it may pass on to others.
long asked_address(long number, int socket, sockaddr* address, socklen_t* size) {
  const socklen_t capacity = size == nullptr ? 0 : *size;
  const long result = kernel(number, socket, address, size);
  if (result < 0 || !scratch().is_active() || address == nullptr || address->sa_family != AF_UNIX ||
      *size <= kPathStart || *size > capacity) {
    return result;
  }
  auto* const text = reinterpret_cast<char*>(address) + kPathStart;
  PathText path(std::string_view(text, strnlen(text, *size - kPathStart)));
  if (scratch().to_virtual(path) && path.size() < *size - kPathStart) {
    std::memcpy(text, path.c_str(), path.size() + 1);
    *size = static_cast<socklen_t>(kPathStart + path.size() + 1);
  }
  return result;
}

}  // namespace

GPUMEMPROF_REPLACE(int, unlink, (const char* path)) { return done(call_unlink(AT_FDCWD, path, 0)); }
GPUMEMPROF_REPLACE(int, unlinkat, (int fd, const char* path, int flags)) {
  return done(call_unlink(fd, path, flags));
}
GPUMEMPROF_REPLACE(int, rmdir, (const char* path)) {
  return done(call_unlink(AT_FDCWD, path, AT_REMOVEDIR));
}
GPUMEMPROF_REPLACE(int, remove, (const char* path)) { return done(remove_any(path)); }
GPUMEMPROF_REPLACE(int, rename, (const char* from, const char* to)) {
  return done(call_rename(AT_FDCWD, from, AT_FDCWD, to, 0));
}
GPUMEMPROF_REPLACE(int, renameat, (int from_fd, const char* from, int to_fd, const char* to)) {
  return done(call_rename(from_fd, from, to_fd, to, 0));
}
GPUMEMPROF_REPLACE(int, renameat2,
                   (int from_fd, const char* from, int to_fd, const char* to, unsigned flags)) {
  return done(call_rename(from_fd, from, to_fd, to, flags));
}
GPUMEMPROF_REPLACE(int, link, (const char* from, const char* to)) {
  return done(call_link(AT_FDCWD, from, AT_FDCWD, to, 0));
}
GPUMEMPROF_REPLACE(int, linkat,
                   (int from_fd, const char* from, int to_fd, const char* to, int flags)) {
  return done(call_link(from_fd, from, to_fd, to, flags));
}
GPUMEMPROF_REPLACE(int, symlink, (const char* target, const char* path)) {
  return done(call_symlink(target, AT_FDCWD, path));
}
GPUMEMPROF_REPLACE(int, symlinkat, (const char* target, int fd, const char* path)) {
  return done(call_symlink(target, fd, path));
}
GPUMEMPROF_REPLACE(int, mkdir, (const char* path, mode_t mode)) {
  return done(call_mkdir(AT_FDCWD, path, mode));
}
GPUMEMPROF_REPLACE(int, mkdirat, (int fd, const char* path, mode_t mode)) {
  return done(call_mkdir(fd, path, mode));
}
GPUMEMPROF_REPLACE(int, mknod, (const char* path, mode_t mode, dev_t device)) {
  return done(call_mknod(AT_FDCWD, path, mode, device));
}
GPUMEMPROF_REPLACE(int, mknodat, (int fd, const char* path, mode_t mode, dev_t device)) {
  return done(call_mknod(fd, path, mode, device));
}
GPUMEMPROF_REPLACE(int, __xmknod,
                   (int /*version*/, const char* path, mode_t mode, const dev_t* device)) {
  return done(call_mknod(AT_FDCWD, path, mode, *device));
}
GPUMEMPROF_REPLACE(int, __xmknodat,
                   (int /*version*/, int fd, const char* path, mode_t mode, const dev_t* device)) {
  return done(call_mknod(fd, path, mode, *device));
}
GPUMEMPROF_REPLACE(int, mkfifo, (const char* path, mode_t mode)) {
  return done(call_mknod(AT_FDCWD, path, mode | S_IFIFO, 0));
}
GPUMEMPROF_REPLACE(int, mkfifoat, (int fd, const char* path, mode_t mode)) {
  return done(call_mknod(fd, path, mode | S_IFIFO, 0));
}

GPUMEMPROF_REPLACE(int, chmod, (const char* path, mode_t mode)) {
  return done(call_chmod(AT_FDCWD, path, mode, 0));
}
GPUMEMPROF_REPLACE(int, lchmod, (const char* path, mode_t mode)) {
  return done(call_chmod(AT_FDCWD, path, mode, AT_SYMLINK_NOFOLLOW));
}
GPUMEMPROF_REPLACE(int, fchmodat, (int fd, const char* path, mode_t mode, int flags)) {
  return done(call_chmod(fd, path, mode, flags));
}
GPUMEMPROF_REPLACE(int, fchmod, (int fd, mode_t mode)) {
  return done(call_chmod(fd, nullptr, mode, 0));
}
GPUMEMPROF_REPLACE(int, chown, (const char* path, uid_t user, gid_t group)) {
  return done(call_chown(AT_FDCWD, path, user, group, 0));
}
GPUMEMPROF_REPLACE(int, lchown, (const char* path, uid_t user, gid_t group)) {
  return done(call_chown(AT_FDCWD, path, user, group, AT_SYMLINK_NOFOLLOW));
}
GPUMEMPROF_REPLACE(int, fchownat, (int fd, const char* path, uid_t user, gid_t group, int flags)) {
  return done(call_chown(fd, path, user, group, flags));
}
GPUMEMPROF_REPLACE(int, fchown, (int fd, uid_t user, gid_t group)) {
  return done(call_chown(fd, nullptr, user, group, 0));
}

GPUMEMPROF_REPLACE(int, utimensat, (int fd, const char* path, const timespec* times, int flags)) {
  return done(call_utimens(fd, path, times, flags));
}
GPUMEMPROF_REPLACE(int, futimens, (int fd, const timespec* times)) {
  return done(call_utimens(fd, nullptr, times, 0));
}
GPUMEMPROF_REPLACE(int, utimes, (const char* path, const timeval* times)) {
  return set_file_times(AT_FDCWD, path, times, 0);
}
GPUMEMPROF_REPLACE(int, lutimes, (const char* path, const timeval* times)) {
  return set_file_times(AT_FDCWD, path, times, AT_SYMLINK_NOFOLLOW);
}
GPUMEMPROF_REPLACE(int, futimes, (int fd, const timeval* times)) {
  return set_file_times(fd, nullptr, times, 0);
}
GPUMEMPROF_REPLACE(int, futimesat, (int fd, const char* path, const timeval* times)) {
  return set_file_times(fd, path, times, 0);
}
GPUMEMPROF_REPLACE(int, utime, (const char* path, const utimbuf* times)) {
  if (times == nullptr) {
    return done(call_utimens(AT_FDCWD, path, nullptr, 0));
  }
  const timespec exact[2] = {{times->actime, 0}, {times->modtime, 0}};
  return done(call_utimens(AT_FDCWD, path, exact, 0));
}

GPUMEMPROF_REPLACE(int, setxattr,
                   (const char* path, const char* name, const void* value, size_t size, int how)) {
  return done(call_setxattr(AT_FDCWD, path, name, value, size, how, 0));
}
GPUMEMPROF_REPLACE(int, lsetxattr,
                   (const char* path, const char* name, const void* value, size_t size, int how)) {
  return done(call_setxattr(AT_FDCWD, path, name, value, size, how, AT_SYMLINK_NOFOLLOW));
}
GPUMEMPROF_REPLACE(int, fsetxattr,
                   (int fd, const char* name, const void* value, size_t size, int how)) {
  return done(call_setxattr(fd, nullptr, name, value, size, how, 0));
}
GPUMEMPROF_REPLACE(int, removexattr, (const char* path, const char* name)) {
  return done(call_removexattr(AT_FDCWD, path, name, 0));
}
GPUMEMPROF_REPLACE(int, lremovexattr, (const char* path, const char* name)) {
  return done(call_removexattr(AT_FDCWD, path, name, AT_SYMLINK_NOFOLLOW));
}
GPUMEMPROF_REPLACE(int, fremovexattr, (int fd, const char* name)) {
  return done(call_removexattr(fd, nullptr, name, 0));
}

GPUMEMPROF_REPLACE(int, bind, (int socket, const sockaddr* address, socklen_t size)) {
  return done(SocketAddress(address, size, true).call(SYS_bind, socket, address, size));
}
GPUMEMPROF_REPLACE(int, getsockname, (int socket, sockaddr* address, socklen_t* size)) {
  return done(asked_address(SYS_getsockname, socket, address, size));
}
GPUMEMPROF_REPLACE(int, getpeername, (int socket, sockaddr* address, socklen_t* size)) {
  return done(asked_address(SYS_getpeername, socket, address, size));
}
GPUMEMPROF_REPLACE(int, connect, (int socket, const sockaddr* address, socklen_t size)) {
  return done(SocketAddress(address, size, false).call(SYS_connect, socket, address, size));
}
