#include "base/byte_source.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <optional>
#include <string_view>
#include <utility>

namespace gpumemprof {
namespace {

Error no_file(const std::string& path, std::string_view what) {
  return {ErrorCode::bad_input, "this is " + std::string(what) + ", not a file", path,
          "write what it gives to a file, and name that"};
}

Error cannot_read(const std::string& path, int error_number) {
  if (error_number == ENOENT && path.find("://") != std::string::npos) {
    return {ErrorCode::bad_input,
            "URLs are read by 'gpumemprof ranks' and 'gpumemprof export' alone", path,
            "name it there, or copy the file to this machine"};
  }
  if (error_number == ENOENT) {
    return {ErrorCode::bad_input, "no such file", path, "check the path"};
  }
  if (error_number == EISDIR) {
    return {ErrorCode::bad_input, "this is a folder, not a file", path, "name a file in it"};
  }
  struct stat info{};
  if (error_number == ENXIO && ::stat(path.c_str(), &info) == 0 && S_ISSOCK(info.st_mode))
    return no_file(path, "a socket");
  return {ErrorCode::bad_input, std::string("cannot be read (") + std::strerror(error_number) + ")",
          path, "check that it is a file you may read"};
}

// Some process has its other end open, and when all have closed it, it ends.
bool is_unnamed_pipe(int descriptor) {
  constexpr auto kFileSystemOfPipes = 0x5049'5045;  // PIPEFS_MAGIC of <linux/magic.h>
  struct statfs system{};
  return ::fstatfs(descriptor, &system) == 0 && system.f_type == kFileSystemOfPipes;
}

// Nothing, if it can be read to its end.
std::optional<Error> refusal(const std::string& path, int descriptor, bool allows_pipes,
                             struct stat& info) {
  if (::fstat(descriptor, &info) != 0) return cannot_read(path, errno);
  if (S_ISREG(info.st_mode)) return std::nullopt;
  if (S_ISDIR(info.st_mode)) return cannot_read(path, EISDIR);
  if (!S_ISFIFO(info.st_mode)) return no_file(path, "a device");
  if (!allows_pipes || !is_unnamed_pipe(descriptor)) return no_file(path, "a pipe");
  // Of the pipe as it was opened here: no other process notices.
  if (::fcntl(descriptor, F_SETFL, O_RDONLY) != 0) return cannot_read(path, errno);
  return std::nullopt;
}

}  // namespace

Result<std::unique_ptr<FileSource>> FileSource::open(const std::string& path) {
  return open(path, false);
}

Result<std::unique_ptr<FileSource>> FileSource::open_input(const std::string& path) {
  return open(path, true);
}

Result<std::unique_ptr<FileSource>> FileSource::open(const std::string& path, bool allows_pipes) {
  // The system ends a path at its first zero byte, so it would open a file other than the one
  // named.
  if (const std::size_t zero = path.find('\0'); zero != std::string::npos) {
    return Error{ErrorCode::bad_input, "a path cannot contain a zero byte", path.substr(0, zero),
                 "check the path"};
  }
  // To open a pipe waits for somebody who writes to it, unless it must not wait. What the path
  // names is asked of what was opened: it may be another one a moment later.
  const int descriptor = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
  if (descriptor < 0) return cannot_read(path, errno);
  struct stat info{};
  if (std::optional<Error> refused = refusal(path, descriptor, allows_pipes, info)) {
    ::close(descriptor);
    return *std::move(refused);
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

Result<std::string> read_file(const std::string& path, std::uint64_t most_bytes) {
  const Result<std::unique_ptr<FileSource>> file = FileSource::open(path);
  if (!file) return file.error();
  constexpr std::size_t kPartBytes = std::size_t{64} << 10;
  std::string text;
  // Its size may be wrong by now, and those of /proc have none.
  for (;;) {
    const std::size_t have = text.size();
    text.resize(have + kPartBytes);
    const Result<std::size_t> got =
        file.value()->read(std::as_writable_bytes(std::span(text).subspan(have)));
    if (!got) return got.error();
    text.resize(have + got.value());
    if (got.value() == 0) return text;
    if (text.size() > most_bytes) {
      return Error{ErrorCode::bad_input, "the file is far too long", path,
                   "check that it is the file you mean"};
    }
  }
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
