// The system calls that take paths, in the merged view: same arguments, and a negated errno on
// failure.
//
// What the C library's functions (redirect/replaced) and its syscall() have in common. While
// nothing is redirected they are the system calls themselves; so are those that only look, as long
// as nothing has changed.
#pragma once

#include <sys/stat.h>

#include <cstddef>

struct statx;

namespace gpumemprof::redirect {

long call_open(int folder_fd, const char* path, int flags, mode_t mode);
long call_truncate(const char* path, off_t size);

long call_stat(int folder_fd, const char* path, struct stat* status, int flags);
long call_statx(int folder_fd, const char* path, int flags, unsigned mask, struct statx* status);
long call_fstat(int fd, struct stat* status);
long call_access(int folder_fd, const char* path, int wanted, int flags);
long call_readlink(int folder_fd, const char* path, char* text, size_t size);
long call_chdir(const char* path);
long call_fchdir(int fd);
// With its final zero, as the system call counts.
long call_getcwd(char* text, size_t size);

long call_unlink(int folder_fd, const char* path, int flags);
long call_mkdir(int folder_fd, const char* path, mode_t mode);
long call_mknod(int folder_fd, const char* path, mode_t mode, dev_t device);
long call_symlink(const char* target, int folder_fd, const char* path);

// Without a path, of the file that is open.
long call_chmod(int folder_fd, const char* path, mode_t mode, int flags);
long call_chown(int folder_fd, const char* path, uid_t user, gid_t group, int flags);
long call_utimens(int folder_fd, const char* path, const timespec* times, int flags);
long call_setxattr(int fd, const char* path, const char* name, const void* value, size_t size,
                   int how, int flags);
long call_removexattr(int fd, const char* path, const char* name, int flags);

// For calls that only need a path at which the kernel finds the file: 0, and the path to pass on.
class PathText;
enum class LastLink;
long backing_of(int folder_fd, const char* path, LastLink last, PathText& backing);

}  // namespace gpumemprof::redirect
