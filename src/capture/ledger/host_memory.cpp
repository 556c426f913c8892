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

// The two versions of control groups.
struct GroupFiles {
  std::string_view hierarchy;  // below the folder where they are mounted
  std::string_view mark;       // of its line in /proc/self/cgroup
  std::string_view limit;
  std::string_view usage;
  std::string_view reclaimable;  // a key in memory.stat
};
constexpr std::array kVersions = {
    GroupFiles{"", "0::", "/memory.max", "/memory.current", "\ninactive_file"},
    GroupFiles{"/memory", "memory:", "/memory.limit_in_bytes", "/memory.usage_in_bytes",
               "\ntotal_inactive_file"},
};

std::optional<std::uint64_t> number_in(const std::string& folder, std::string_view file,
                                       std::string_view key = "") {
  return number_after(contents((folder + std::string(file)).c_str()), key);
}

void apply_group(const GroupFiles& files, const std::string& folder, HostMemory& host) {
  const std::optional<std::uint64_t> limit = number_in(folder, files.limit);
  if (!limit) return;
  const std::optional<std::uint64_t> usage = number_in(folder, files.usage);
  if (!usage) return;
  const std::uint64_t reclaimable =
      number_in(folder, "/memory.stat", files.reclaimable).value_or(0);
  const std::uint64_t used = *usage - std::min(*usage, reclaimable);
  const std::uint64_t available = *limit - std::min(*limit, used);
  if (available >= host.available_bytes) return;
  host.total_bytes = *limit;
  host.available_bytes = available;
}

// The path of this process's group; "" where the groups above it are not visible.
std::string group_path(std::string_view groups, std::string_view mark) {
  std::size_t place = groups.find(mark);
  if (place == std::string_view::npos) return "";
  place += mark.size();
  const std::string path(groups.substr(place, groups.find('\n', place) - place));
  const bool is_below = path.size() > 1 && path.front() == '/';
  return is_below && path.find("/..") == std::string::npos ? path : "";
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
  apply_limits("/sys/fs/cgroup", contents("/proc/self/cgroup"), host);
  return host;
}

void apply_limits(const std::string& mounted, std::string_view groups, HostMemory& host) {
  for (const GroupFiles& files : kVersions) {
    const std::string root = mounted + std::string(files.hierarchy);
    std::string path = group_path(groups, files.mark);
    while (!path.empty()) {
      apply_group(files, root + path, host);
      path.resize(path.rfind('/'));
    }
    apply_group(files, root, host);
  }
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
