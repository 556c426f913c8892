#include "base/spill/spill_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <system_error>

namespace gpumemprof {
namespace {

int open_without_name() {
  std::error_code failed;
  const std::string folder = std::filesystem::temp_directory_path(failed).string();
  if (failed) return -1;
  const int descriptor = ::open(folder.c_str(), O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
  if (descriptor >= 0) return descriptor;
  // Not every file system can do that.
  std::string path = folder + "/gpumemprof-XXXXXX";
  const int named = ::mkostemp(path.data(), O_CLOEXEC);
  if (named >= 0) ::unlink(path.c_str());
  return named;
}

}  // namespace

SpillFile::~SpillFile() {
  if (descriptor_ >= 0) ::close(descriptor_);
}

std::optional<std::uint64_t> SpillFile::append(std::span<const std::byte> bytes) {
  if (has_failed_) return std::nullopt;
  if (descriptor_ < 0) descriptor_ = open_without_name();
  has_failed_ = descriptor_ < 0;
  std::size_t done = 0;
  while (!has_failed_ && done < bytes.size()) {
    const ssize_t written = ::pwrite(descriptor_, bytes.data() + done, bytes.size() - done,
                                     static_cast<off_t>(size_bytes_ + done));
    if (written < 0 && errno == EINTR) continue;
    has_failed_ = written <= 0;
    if (!has_failed_) done += static_cast<std::size_t>(written);
  }
  if (has_failed_) return std::nullopt;
  const std::uint64_t offset = size_bytes_;
  size_bytes_ += bytes.size();
  return offset;
}

bool SpillFile::read(std::uint64_t offset, std::span<std::byte> bytes) const {
  std::size_t done = 0;
  while (done < bytes.size()) {
    const ssize_t got = ::pread(descriptor_, bytes.data() + done, bytes.size() - done,
                                static_cast<off_t>(offset + done));
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return false;
    done += static_cast<std::size_t>(got);
  }
  return true;
}

}  // namespace gpumemprof
