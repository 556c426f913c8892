#include "session/excerpt/long_file.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdlib>
#include <filesystem>
#include <string_view>
#include <system_error>

#include "base/byte_source.h"
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

std::optional<WindowSizes> window_sizes(const std::string& path) {
  std::error_code ignored;
  if (!std::filesystem::is_regular_file(path, ignored)) return std::nullopt;
  Result<std::unique_ptr<FileSource>> file = FileSource::open(path);
  if (!file) return std::nullopt;
  std::array<std::byte, 8> start{};
  const Result<std::size_t> read = file.value()->read(start);
  if (!read || !looks_like_trace(std::span(start).first(read.value()))) return std::nullopt;
  WindowSizes sizes;
  // The longer a run, the more steps and leaked memory there are to remember: the window leaves
  // them room.
  constexpr std::uint64_t kBytesPerEventLess = 3400;
  sizes.events -= static_cast<std::uint32_t>(
      std::min<std::uint64_t>(file.value()->size_bytes() / kBytesPerEventLess, sizes.events / 2));
  const std::optional<std::uint32_t> forced = forced_window();
  if (forced) sizes.events = *forced;
  if (!forced && file.value()->size_bytes() < kLongFileBytes) return std::nullopt;
  return sizes;
}

}  // namespace gpumemprof
