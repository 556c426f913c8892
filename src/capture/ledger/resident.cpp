#include "capture/ledger/resident.h"

#include <fcntl.h>
#include <pthread.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <charconv>
#include <string_view>

namespace gpumemprof::capture {
namespace {

constexpr int kNotOpen = -1;
std::atomic<int> g_file{kNotOpen};

int open_file() {
  // The file describes the process that opened it, so a forked child opens its own.
  static const int kAtFork = ::pthread_atfork(nullptr, nullptr, [] {
    const int inherited = g_file.exchange(kNotOpen);
    if (inherited != kNotOpen) ::close(inherited);
  });
  static_cast<void>(kAtFork);
  const int opened = ::open("/proc/self/statm", O_RDONLY | O_CLOEXEC);
  int expected = kNotOpen;
  if (opened == kNotOpen || g_file.compare_exchange_strong(expected, opened)) return opened;
  ::close(opened);  // another thread was first
  return expected;
}

}  // namespace

std::optional<std::uint64_t> resident_bytes() {
  static const auto kPageBytes = static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE));
  int file = g_file.load(std::memory_order_acquire);
  if (file == kNotOpen) file = open_file();
  std::array<char, 128> buffer;
  const ssize_t length = file == kNotOpen ? 0 : ::pread(file, buffer.data(), buffer.size(), 0);
  if (length <= 0) return std::nullopt;
  std::string_view text(buffer.data(), static_cast<std::size_t>(length));
  // "total resident shared …", in pages.
  const std::size_t blank = text.find(' ');
  if (blank == std::string_view::npos) return std::nullopt;
  text.remove_prefix(blank + 1);
  std::uint64_t pages = 0;
  if (std::from_chars(text.data(), text.data() + text.size(), pages).ec != std::errc())
    return std::nullopt;
  return pages * kPageBytes;
}

}  // namespace gpumemprof::capture
