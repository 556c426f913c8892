#include "capture/ledger/host_memory.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <string>
#include <string_view>

#include "capture/ledger/resident.h"

namespace gpumemprof::capture {
namespace {

std::string contents(const char* path) {
  const int file = ::open(path, O_RDONLY | O_CLOEXEC);
  if (file < 0) return "";
  std::array<char, 8192> buffer;
  const ssize_t length = ::read(file, buffer.data(), buffer.size());
  ::close(file);
  return length <= 0 ? "" : std::string(buffer.data(), static_cast<std::size_t>(length));
}

// The number that follows `key` and blanks; none if the key is not there.
std::optional<std::uint64_t> number_after(std::string_view text, std::string_view key) {
  const std::size_t place = text.find(key);
  if (place == std::string_view::npos) return std::nullopt;
  text.remove_prefix(place + key.size());
  text.remove_prefix(std::min(text.find_first_not_of(" \t"), text.size()));
  std::uint64_t number = 0;
  if (std::from_chars(text.data(), text.data() + text.size(), number).ec != std::errc())
    return std::nullopt;
  return number;
}

// A container's limit; version 2 of control groups, then version 1.
struct ContainerFiles {
  const char* limit;
  const char* usage;
  const char* details;
  const char* reclaimable;  // a key in `details`
};
constexpr std::array kContainerFiles = {
    ContainerFiles{"/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory.current",
                   "/sys/fs/cgroup/memory.stat", "\ninactive_file"},
    ContainerFiles{"/sys/fs/cgroup/memory/memory.limit_in_bytes",
                   "/sys/fs/cgroup/memory/memory.usage_in_bytes",
                   "/sys/fs/cgroup/memory/memory.stat", "\ntotal_inactive_file"},
};

void apply_container(HostMemory& host) {
  for (const ContainerFiles& files : kContainerFiles) {
    const std::optional<std::uint64_t> limit = number_after(contents(files.limit), "");
    const std::optional<std::uint64_t> usage = number_after(contents(files.usage), "");
    if (!limit || !usage || *limit >= host.total_bytes) continue;
    const std::uint64_t reclaimable =
        number_after(contents(files.details), files.reclaimable).value_or(0);
    const std::uint64_t used = *usage - std::min(*usage, reclaimable);
    host.total_bytes = *limit;
    host.available_bytes = std::min(host.available_bytes, *limit - std::min(*limit, used));
    return;
  }
}

std::uint64_t distance(std::uint64_t one, std::uint64_t other) {
  return std::max(one, other) - std::min(one, other);
}

}  // namespace

std::optional<HostMemory> read_host_memory() {
  const std::string text = contents("/proc/meminfo");
  const std::optional<std::uint64_t> total = number_after(text, "MemTotal:");
  const std::optional<std::uint64_t> available = number_after(text, "MemAvailable:");
  const std::optional<std::uint64_t> resident = resident_bytes();
  if (!total || !available || !resident) return std::nullopt;
  HostMemory host{*resident, *available * 1024, *total * 1024};
  apply_container(host);
  return host;
}

bool is_news(const HostMemory& last, const HostMemory& now) {
  constexpr std::uint64_t kParts = 8;
  constexpr std::uint64_t kPartsWhenLow = 100;
  const bool is_low = now.available_bytes < now.total_bytes / kParts;
  const std::uint64_t enough = now.total_bytes / (is_low ? kPartsWhenLow : kParts);
  return distance(last.resident_bytes, now.resident_bytes) > enough ||
         distance(last.available_bytes, now.available_bytes) > enough;
}

std::optional<HostMemory> HostMemoryWatch::look() {
  const std::optional<HostMemory> now = read_host_memory();
  if (!now || (last_ && !is_news(*last_, *now))) return std::nullopt;
  last_ = now;
  return now;
}

}  // namespace gpumemprof::capture
