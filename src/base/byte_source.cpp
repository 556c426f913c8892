#include "base/byte_source.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

namespace gpumemprof {
namespace {

Error cannot_read(const std::string& path, int error_number) {
  if (error_number == ENOENT) {
    return {ErrorCode::bad_input, "no such file", path, "check the path"};
  }
  if (error_number == EISDIR) {
    return {ErrorCode::bad_input, "this is a folder, not a file", path, "name a file in it"};
  }
  return {ErrorCode::bad_input, std::string("cannot be read (") + std::strerror(error_number) + ")",
          path, "check that it is a file you may read"};
}

}  // namespace

Result<std::unique_ptr<FileSource>> FileSource::open(const std::string& path) {
  // The system ends a path at its first zero byte, so it would open a file other than the one
  // named.
  if (const std::size_t zero = path.find('\0'); zero != std::string::npos) {
    return Error{ErrorCode::bad_input, "a path cannot contain a zero byte", path.substr(0, zero),
                 "check the path"};
  }
  const int descriptor = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (descriptor < 0) return cannot_read(path, errno);
  struct stat info{};
  if (::fstat(descriptor, &info) != 0 || S_ISDIR(info.st_mode)) {
    const int error_number = S_ISDIR(info.st_mode) ? EISDIR : errno;
    ::close(descriptor);
    return cannot_read(path, error_number);
  }
  const auto size_bytes = static_cast<std::uint64_t>(std::max<off_t>(info.st_size, 0));
  return std::unique_ptr<FileSource>(new FileSource(descriptor, path, size_bytes));
}

FileSource::~FileSource() { ::close(descriptor_); }

Result<std::size_t> FileSource::read(std::span<std::byte> out) {
  const std::uint64_t left = end_ - std::min(end_, position_);
  const auto wanted = static_cast<std::size_t>(std::min<std::uint64_t>(out.size(), left));
  for (;;) {
    const ssize_t got = ::read(descriptor_, out.data(), wanted);
    if (got >= 0) {
      position_ += static_cast<std::uint64_t>(got);
      return static_cast<std::size_t>(got);
    }
    if (errno != EINTR) return cannot_read(path_, errno);
  }
}

std::uint64_t FileSource::current_size_bytes() const {
  struct stat info{};
  if (::fstat(descriptor_, &info) != 0) return 0;
  return static_cast<std::uint64_t>(std::max<off_t>(info.st_size, 0));
}

bool FileSource::is_at_its_path() const {
  struct stat opened{};
  struct stat named{};
  return ::fstat(descriptor_, &opened) == 0 && ::stat(path_.c_str(), &named) == 0 &&
         opened.st_dev == named.st_dev && opened.st_ino == named.st_ino;
}

void FileSource::move_to(std::uint64_t offset) {
  ::lseek(descriptor_, static_cast<off_t>(offset), SEEK_SET);
  position_ = offset;
}

Result<std::size_t> BufferSource::read(std::span<std::byte> out) {
  const std::size_t take = std::min(out.size(), rest_.size());
  std::copy_n(rest_.begin(), take, out.begin());
  rest_ = rest_.subspan(take);
  return take;
}

PeekableSource::PeekableSource(ByteSource& source, std::size_t peeked_bytes)
    : source_(source), wanted_(peeked_bytes) {}

Result<std::span<const std::byte>> PeekableSource::peek() {
  while (start_.size() < wanted_) {
    const std::size_t have = start_.size();
    start_.resize(wanted_);
    const Result<std::size_t> got = source_.read(std::span(start_).subspan(have));
    start_.resize(have + (got ? got.value() : 0));
    if (!got) return got.error();
    if (got.value() == 0) break;
  }
  return std::span<const std::byte>(start_);
}

Result<std::size_t> PeekableSource::read(std::span<std::byte> out) {
  if (taken_ == start_.size()) return source_.read(out);
  const std::size_t take = std::min(out.size(), start_.size() - taken_);
  std::copy_n(start_.begin() + static_cast<std::ptrdiff_t>(taken_), take, out.begin());
  taken_ += take;
  return take;
}

}  // namespace gpumemprof
