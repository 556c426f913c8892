#include "base/file_sink.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <optional>
#include <random>

namespace gpumemprof {
namespace {

Error cannot_write(const std::string& path, int error_number) {
  if (error_number == EEXIST) {
    return {ErrorCode::usage, "there is such a file already", path,
            "give another name, or -f to replace it"};
  }
  if (error_number == ENOSPC || error_number == EDQUOT) {
    return {ErrorCode::environment, "the disk is full", path,
            "make room, or write to another disk"};
  }
  return {ErrorCode::environment,
          std::string("cannot be written (") + std::strerror(error_number) + ")", path,
          "check that the folder exists and that you may write there"};
}

std::string folder_of(const std::string& path) {
  const std::size_t slash = path.rfind('/');
  if (slash == std::string::npos) return ".";
  return slash == 0 ? "/" : path.substr(0, slash);
}

// A name beside the file's own that nobody can foresee.
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

// The system ends a path at its first zero byte: the file would not be the one that was named.
std::optional<Error> refused_name(const std::string& path) {
  if (path.find('\0') == std::string::npos) return std::nullopt;
  return Error{ErrorCode::usage, "a path cannot hold a zero byte", path.substr(0, path.find('\0')),
               "give another name"};
}

}  // namespace

FileSink::FileSink(int descriptor, std::string path)
    : descriptor_(descriptor), path_(std::move(path)), owner_process_(::getpid()) {}

Result<std::unique_ptr<FileSink>> FileSink::create(const std::string& path, Existing existing,
                                                   Appears appears) {
  if (std::optional<Error> refused = refused_name(path)) return *std::move(refused);
  const bool is_written_to = existing == Existing::replace && is_special(path);
  if (appears == Appears::when_closed && !is_written_to) return create_hidden(path, existing);
  const int how = existing == Existing::refuse ? O_EXCL : O_TRUNC;
  const int descriptor = ::open(path.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC | how, 0666);
  if (descriptor < 0) return cannot_write(path, errno);
  return std::unique_ptr<FileSink>(new FileSink(descriptor, path));
}

Result<std::unique_ptr<FileSink>> FileSink::create_hidden(const std::string& path,
                                                          Existing existing) {
  if (existing == Existing::refuse && is_there(path)) return cannot_write(path, EEXIST);
  struct stat info{};
  if (::lstat(path.c_str(), &info) == 0 && S_ISDIR(info.st_mode)) return cannot_write(path, EISDIR);
  std::string name;
  int descriptor = -1;
  // It gets its name through /proc.
  if (::access("/proc/self/fd", X_OK) == 0)
    descriptor = ::open(folder_of(path).c_str(), O_TMPFILE | O_WRONLY | O_CLOEXEC, 0666);
  if (descriptor < 0) {  // some file systems have no files without a name
    name = random_name(path);
    descriptor = ::open(name.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0666);
  }
  if (descriptor < 0) return cannot_write(path, errno);
  std::unique_ptr<FileSink> sink(new FileSink(descriptor, path));
  sink->is_hidden_ = true;
  sink->hidden_name_ = std::move(name);
  sink->existing_ = existing;
  return sink;
}

FileSink::~FileSink() {
  if (descriptor_ >= 0) ::close(descriptor_);
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
  // Some file systems have no links: rename() would replace what came in between, so it is looked
  // for once more.
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

Status FileSink::write(std::span<const std::byte> piece) {
  if (descriptor_ < 0 || !is_ours()) {
    return Error{ErrorCode::environment, "is not open for writing in this process", path_, ""};
  }
  std::size_t written = 0;
  while (written < piece.size()) {
    const ssize_t took = ::write(descriptor_, piece.data() + written, piece.size() - written);
    if (took >= 0) {
      written += static_cast<std::size_t>(took);
    } else if (errno != EINTR) {
      const int error_number = errno;
      has_failed_ = true;
      // A pipe or device cannot be cut back; a reader of it sees the broken piece for what it is.
      const auto whole_bytes = static_cast<off_t>(size_bytes_);
      if (written > 0 && ::ftruncate(descriptor_, whole_bytes) == 0)
        ::lseek(descriptor_, whole_bytes, SEEK_SET);
      return cannot_write(path_, error_number);
    }
  }
  size_bytes_ += piece.size();
  return Done{};
}

Status FileSink::close() {
  if (descriptor_ < 0) return Done{};
  const bool is_published = is_hidden_ && !has_failed_;
  // A file without a name is gone once it is closed.
  if (is_published && hidden_name_.empty()) {
    Status published = publish();
    if (!published) return published;
  }
  const int closed = ::close(descriptor_);
  descriptor_ = -1;
  // Linux has let go of the descriptor even when a signal came in between.
  if (closed != 0 && errno != EINTR) return cannot_write(path_, errno);
  return is_published && is_hidden_ ? publish() : Done{};
}

}  // namespace gpumemprof
