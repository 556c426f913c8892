#include "base/file_sink.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <optional>
#include <random>

namespace gpumemprof {
namespace {

Error cannot_write(const std::string& path, int error_number) {
  if (error_number == EEXIST) {
    return {ErrorCode::usage, "the file already exists", path,
            "choose another name, or use -f to replace it"};
  }
  if (error_number == EWOULDBLOCK) {
    return {ErrorCode::usage, "is being written by another recording", path, "choose another name"};
  }
  if (error_number == ENOSPC || error_number == EDQUOT) {
    return {ErrorCode::environment, "the disk is full", path,
            "free some space, or write to another disk"};
  }
  if (error_number == EMFILE || error_number == ENFILE) {
    return {ErrorCode::environment, "no more files can be opened here", path,
            "raise the limit (ulimit -n)"};
  }
  if (error_number == EFBIG) {
    return {ErrorCode::environment, "the file reached the largest size allowed here", path,
            "raise the limit (ulimit -f), or write to another disk"};
  }
  return {ErrorCode::environment,
          std::string("cannot be written (") + std::strerror(error_number) + ")", path,
          "check that the folder exists and that you may write there"};
}

// Programs close and reuse low descriptors: daemons all up to 1,023, a shell's "1>&-" the standard
// ones.
int moved_up(int descriptor) {
  rlimit limit{};
  const bool is_known = ::getrlimit(RLIMIT_NOFILE, &limit) == 0;
  const rlim_t most = is_known ? std::min<rlim_t>(limit.rlim_cur, 4096) : 1024;
  for (const rlim_t floor : {most / 2, rlim_t{512}, rlim_t{64}, rlim_t{3}}) {
    const int moved = ::fcntl(descriptor, F_DUPFD_CLOEXEC, static_cast<int>(floor));
    if (moved < 0) continue;
    ::close(descriptor);
    return moved;
  }
  if (descriptor > STDERR_FILENO) return descriptor;
  const int error_number = errno;
  ::close(descriptor);
  errno = error_number;
  return -1;
}

bool is_full(int error_number) {
  return error_number == ENOSPC || error_number == EDQUOT || error_number == EFBIG;
}

std::string folder_of(const std::string& path) {
  const std::size_t slash = path.rfind('/');
  if (slash == std::string::npos) return ".";
  return slash == 0 ? "/" : path.substr(0, slash);
}

// An unpredictable name next to the file's own.
std::string random_name(const std::string& path) {
  std::random_device random;
  char digits[32];
  std::snprintf(digits, sizeof(digits), "/.gpumemprof-%08x%08x", random(), random());
  return folder_of(path) + digits;
}

bool is_special(const std::string& path) {
  struct stat info{};
  return ::stat(path.c_str(), &info) == 0 && !S_ISREG(info.st_mode) && !S_ISDIR(info.st_mode);
}

bool is_there(const std::string& path) {
  struct stat info{};
  return ::lstat(path.c_str(), &info) == 0;
}

// Or to nothing. A link to a pipe or a device, such as /dev/stdout, stands for it.
bool is_link_to_file(const std::string& path) {
  struct stat info{};
  return ::lstat(path.c_str(), &info) == 0 && S_ISLNK(info.st_mode) && !is_special(path);
}

// The system ends a path at its first zero byte, so the file would not be the one that was named.
std::optional<Error> refused_name(const std::string& path) {
  if (path.find('\0') == std::string::npos) return std::nullopt;
  return Error{ErrorCode::usage, "a path cannot contain a zero byte",
               path.substr(0, path.find('\0')), "choose another name"};
}

}  // namespace

FileSink::FileSink(int descriptor, std::string path)
    : descriptor_(descriptor), path_(std::move(path)), owner_process_(::getpid()) {
  std::error_code ignored;
  absolute_path_ = std::filesystem::absolute(path_, ignored).string();
  struct stat status{};
  if (::fstat(descriptor_, &status) != 0) return;
  identity_ = {status.st_dev, status.st_ino};
  is_regular_ = S_ISREG(status.st_mode);
}

Result<std::unique_ptr<FileSink>> FileSink::create(const std::string& path, Existing existing,
                                                   Appears appears) {
  if (std::optional<Error> refused = refused_name(path)) return *std::move(refused);
  const bool is_written_to = existing == Existing::replace && is_special(path);
  if (appears == Appears::when_closed && !is_written_to) return create_hidden(path, existing);
  return create_visible(path, existing);
}

Result<std::unique_ptr<FileSink>> FileSink::create_visible(const std::string& path,
                                                           Existing existing) {
  const bool is_link = is_link_to_file(path);
  if (existing == Existing::replace && is_link && ::unlink(path.c_str()) != 0)
    return cannot_write(path, errno);
  const int how = existing == Existing::refuse ? O_EXCL : is_link ? O_NOFOLLOW : 0;
  int descriptor = ::open(path.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC | O_NOCTTY | how, 0666);
  if (descriptor >= 0) descriptor = moved_up(descriptor);
  if (descriptor < 0) return cannot_write(path, errno);
  std::unique_ptr<FileSink> sink(new FileSink(descriptor, path));
  if (!sink->is_regular_) return sink;
  // Lock before truncating: the file may belong to another recording. Some file systems have no
  // locks.
  if (::flock(descriptor, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK)
    return cannot_write(path, EWOULDBLOCK);
  if (existing == Existing::replace && ::ftruncate(descriptor, 0) != 0)
    return cannot_write(path, errno);
  return sink;
}

Result<std::unique_ptr<FileSink>> FileSink::create_hidden(const std::string& path,
                                                          Existing existing) {
  if (existing == Existing::refuse && is_there(path)) return cannot_write(path, EEXIST);
  struct stat info{};
  if (::lstat(path.c_str(), &info) == 0 && S_ISDIR(info.st_mode)) return cannot_write(path, EISDIR);
  std::string name;
  int descriptor = -1;
  // The file will be linked to its name through /proc.
  if (::access("/proc/self/fd", X_OK) == 0)
    descriptor = ::open(folder_of(path).c_str(), O_TMPFILE | O_WRONLY | O_CLOEXEC, 0666);
  if (descriptor < 0) {  // some file systems do not support unnamed files
    name = random_name(path);
    descriptor = ::open(name.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0666);
  }
  if (descriptor >= 0) descriptor = moved_up(descriptor);
  if (descriptor < 0) return cannot_write(path, errno);
  std::unique_ptr<FileSink> sink(new FileSink(descriptor, path));
  sink->is_hidden_ = true;
  sink->hidden_name_ = std::move(name);
  sink->existing_ = existing;
  return sink;
}

FileSink::~FileSink() {
  // A file without a single piece is no file of its kind, and would be in the way.
  const bool is_stump = has_failed_ && size_bytes_ == 0 && is_regular_ && !is_hidden_;
  if (is_stump && is_ours() && is_in_its_place()) ::unlink(absolute_path_.c_str());
  if (descriptor_ >= 0 && holds_file()) ::close(descriptor_);
  if (is_hidden_ && !hidden_name_.empty() && is_ours()) ::unlink(hidden_name_.c_str());
}

Status FileSink::publish() {
  const auto link_as = [&](const std::string& name) {
    if (!hidden_name_.empty()) return ::link(hidden_name_.c_str(), name.c_str());
    const std::string self = "/proc/self/fd/" + std::to_string(descriptor_);
    return ::linkat(AT_FDCWD, self.c_str(), AT_FDCWD, name.c_str(), AT_SYMLINK_FOLLOW);
  };
  if (link_as(path_) == 0) {
    if (!hidden_name_.empty()) ::unlink(hidden_name_.c_str());
    is_hidden_ = false;
    return Done{};
  }
  // Some file systems have no hard links: rename() would replace a file created in between, so we
  // check once more.
  const bool has_links = errno != EPERM && errno != EOPNOTSUPP && errno != ENOSYS;
  if (has_links && (errno != EEXIST || existing_ == Existing::refuse))
    return cannot_write(path_, errno);
  if (existing_ == Existing::refuse && is_there(path_)) return cannot_write(path_, EEXIST);
  if (hidden_name_.empty()) {
    const std::string name = random_name(path_);
    if (link_as(name) != 0) return cannot_write(path_, errno);
    hidden_name_ = name;
  }
  if (::rename(hidden_name_.c_str(), path_.c_str()) != 0) return cannot_write(path_, errno);
  is_hidden_ = false;
  return Done{};
}

bool FileSink::is_ours() const { return ::getpid() == owner_process_; }

bool FileSink::holds_file() const {
  struct stat status{};
  return ::fstat(descriptor_, &status) == 0 && Identity{status.st_dev, status.st_ino} == identity_;
}

bool FileSink::open_again() {
  descriptor_ = -1;  // the descriptor is the program's now: not ours to close
  if (!is_regular_ || is_hidden_) return false;
  int descriptor =
      ::open(absolute_path_.c_str(), O_WRONLY | O_CLOEXEC | O_NOCTTY | O_NOFOLLOW | O_NONBLOCK);
  if (descriptor >= 0) descriptor = moved_up(descriptor);
  if (descriptor < 0) return false;
  descriptor_ = descriptor;
  const auto end = static_cast<off_t>(size_bytes_);
  struct stat status{};
  if (holds_file() && ::fstat(descriptor, &status) == 0 && status.st_size == end &&
      ::lseek(descriptor, end, SEEK_SET) == end) {
    // Fails if a child still has the first descriptor: then that descriptor's lock holds.
    static_cast<void>(::flock(descriptor, LOCK_EX | LOCK_NB));
    return true;
  }
  ::close(descriptor);
  descriptor_ = -1;
  return false;
}

Status FileSink::recover() {
  if (descriptor_ < 0 || !is_ours()) {
    return Error{ErrorCode::environment, "is not open for writing in this process", path_, ""};
  }
  if (holds_file() || open_again()) return Done{};
  return Error{ErrorCode::environment,
               "the program closed the file, and it could not be opened again", path_,
               "record to a file that the program does not touch"};
}

int FileSink::make_room(std::uint64_t bytes) const {
  const auto end = static_cast<off_t>(size_bytes_);
  // What is reserved past the end does not count against the limit, but the last piece will.
  rlimit limit{};
  if (::getrlimit(RLIMIT_FSIZE, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY &&
      size_bytes_ + bytes > limit.rlim_cur)
    return EFBIG;
  if (::fallocate(descriptor_, FALLOC_FL_KEEP_SIZE, end, static_cast<off_t>(bytes)) == 0) return 0;
  return is_full(errno) ? errno : 0;  // otherwise it cannot be reserved here
}

Status FileSink::write(std::span<const std::byte> piece) {
  if (Status recovered = recover(); !recovered) return recovered;
  if (is_regular_ && reserve_bytes_ > 0) {
    // If this fails, the space past the end stays as it was.
    const int error_number = make_room(piece.size() + reserve_bytes_);
    // If none was ever reserved, what fits is written.
    has_room_ |= error_number == 0;
    if (error_number != 0 && has_room_) {
      has_failed_ = true;
      return cannot_write(path_, error_number);
    }
  }
  return put(piece);
}

Status FileSink::write_last(std::span<const std::byte> piece) {
  if (Status recovered = recover(); !recovered) return recovered;
  return put(piece);
}

Status FileSink::put(std::span<const std::byte> piece) {
  std::size_t written = 0;
  while (written < piece.size()) {
    const ssize_t took = ::write(descriptor_, piece.data() + written, piece.size() - written);
    if (took >= 0) {
      written += static_cast<std::size_t>(took);
    } else if (errno != EINTR) {
      const int error_number = errno;
      has_failed_ = true;
      // A pipe or device cannot be truncated; its reader recognises the broken piece as such.
      const auto whole_bytes = static_cast<off_t>(size_bytes_);
      if (written > 0 && ::ftruncate(descriptor_, whole_bytes) == 0) {
        ::lseek(descriptor_, whole_bytes, SEEK_SET);
        if (reserve_bytes_ > 0) static_cast<void>(make_room(reserve_bytes_));
      }
      return cannot_write(path_, error_number);
    }
  }
  size_bytes_ += piece.size();
  return Done{};
}

bool FileSink::is_in_its_place() const {
  struct stat there{};
  return !is_regular_ || is_hidden_ ||
         (::stat(absolute_path_.c_str(), &there) == 0 &&
          Identity{there.st_dev, there.st_ino} == identity_);
}

Status FileSink::close() {
  if (descriptor_ < 0) return Done{};
  if (Status recovered = recover(); !recovered) return recovered;
  if (is_regular_ && reserve_bytes_ > 0 &&
      ::ftruncate(descriptor_, static_cast<off_t>(size_bytes_)) != 0)
    return cannot_write(path_, errno);
  const bool is_published = is_hidden_ && !has_failed_;
  const bool was_there = is_in_its_place();
  // An unnamed file is gone once it is closed.
  if (is_published && hidden_name_.empty()) {
    Status published = publish();
    if (!published) return published;
  }
  const int closed = ::close(descriptor_);
  descriptor_ = -1;
  // Linux has released the descriptor even if a signal interrupted the call.
  if (closed != 0 && errno != EINTR) return cannot_write(path_, errno);
  if (!was_there) {
    return Error{ErrorCode::environment, "the file was deleted or replaced while it was written",
                 path_, "record again, to a file that nothing else changes"};
  }
  return is_published && is_hidden_ ? publish() : Done{};
}

}  // namespace gpumemprof
