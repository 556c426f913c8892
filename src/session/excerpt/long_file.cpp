#include "session/excerpt/long_file.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdlib>
#include <string_view>
#include <system_error>

#include "base/byte_source.h"
#include "trace/chapters/chapter_folder.h"
#include "trace/reader.h"

namespace gpumemprof {
namespace {

// About four million events: whole, they take 300 MiB.
constexpr std::uint64_t kLongFileBytes = std::uint64_t{8} << 20U;

}  // namespace

std::optional<std::uint32_t> forced_window() {
  const char* text = std::getenv("GPUMEMPROF_WINDOW_EVENTS");
  if (text == nullptr) return std::nullopt;
  const std::string_view digits(text);
  std::uint32_t events = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), events);
  if (error != std::errc() || end != digits.data() + digits.size() || events == 0)
    return std::nullopt;
  return events;
}

std::uint64_t recording_bytes(const std::string& path) {
  std::error_code failed;
  if (!is_folder(path)) {
    const std::uintmax_t size_bytes = std::filesystem::file_size(path, failed);
    return failed ? 0 : size_bytes;
  }
  std::uint64_t total_bytes = 0;
  const Result<std::vector<ChapterFile>> files = list_chapters(path);
  if (!files) return 0;
  for (const ChapterFile& file : files.value()) total_bytes += file.size_bytes;
  return total_bytes;
}

std::optional<std::filesystem::file_time_type> last_change(const std::string& path) {
  std::string newest = path;
  // Of a folder, only new names show in its own time.
  if (is_folder(path)) {
    const Result<std::vector<ChapterFile>> files = list_chapters(path);
    if (files) newest = files.value().back().path;
  }
  std::error_code failed;
  const auto changed = std::filesystem::last_write_time(newest, failed);
  return failed ? std::nullopt : std::optional(changed);
}

namespace {

bool is_of_ours(const std::string& path) {
  if (is_folder(path)) return list_chapters(path).ok();
  std::error_code ignored;
  if (!std::filesystem::is_regular_file(path, ignored)) return false;
  const Result<std::unique_ptr<FileSource>> file = FileSource::open(path);
  if (!file) return false;
  std::array<std::byte, 8> start{};
  const Result<std::size_t> read = file.value()->read(start);
  return read && looks_like_trace(std::span(start).first(read.value()));
}

}  // namespace

std::optional<WindowSizes> window_sizes(const std::string& path) {
  if (!is_of_ours(path)) return std::nullopt;
  const std::uint64_t size_bytes = recording_bytes(path);
  WindowSizes sizes;
  // The longer a run, the more steps and leaked memory there are to remember: the window leaves
  // them room.
  constexpr std::uint64_t kBytesPerEventLess = 3400;
  sizes.events -= static_cast<std::uint32_t>(
      std::min<std::uint64_t>(size_bytes / kBytesPerEventLess, sizes.events / 2));
  const std::optional<std::uint32_t> forced = forced_window();
  if (forced) sizes.events = *forced;
  if (!forced && size_bytes < kLongFileBytes) return std::nullopt;
  return sizes;
}

}  // namespace gpumemprof
