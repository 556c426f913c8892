#include "base/file_sink.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

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

}  // namespace

FileSink::FileSink(int descriptor, std::string path)
    : descriptor_(descriptor), path_(std::move(path)), owner_process_(::getpid()) {}

Result<std::unique_ptr<FileSink>> FileSink::create(const std::string& path, Existing existing) {
  const int how = existing == Existing::refuse ? O_EXCL : O_TRUNC;
  const int descriptor = ::open(path.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC | how, 0666);
  if (descriptor < 0) return cannot_write(path, errno);
  return std::unique_ptr<FileSink>(new FileSink(descriptor, path));
}

FileSink::~FileSink() {
  if (descriptor_ >= 0) ::close(descriptor_);
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
  const int closed = ::close(descriptor_);
  descriptor_ = -1;
  // Linux has let go of the descriptor even when a signal came in between.
  if (closed != 0 && errno != EINTR) return cannot_write(path_, errno);
  return Done{};
}

}  // namespace gpumemprof
