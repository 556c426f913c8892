#include "session/exports/kineto_clock.h"

#include <array>
#include <charconv>
#include <memory>
#include <string_view>

#include "base/byte_source.h"
#include "ingest/gzip_source.h"

namespace gpumemprof {
namespace {

constexpr std::string_view kBaseKey = "\"baseTimeNanoseconds\"";
constexpr std::string_view kEventsKey = "\"traceEvents\"";

// The number after a key and a colon; none if it is cut off.
std::optional<std::int64_t> number_after(std::string_view text) {
  const std::size_t digit = text.find_first_of("0123456789");
  if (digit == std::string_view::npos) return std::nullopt;
  const std::size_t end = text.find_first_not_of("0123456789", digit);
  std::int64_t number = 0;
  if (end == std::string_view::npos) return std::nullopt;
  const auto parsed = std::from_chars(text.data() + digit, text.data() + end, number);
  if (parsed.ec != std::errc()) return std::nullopt;
  return number;
}

}  // namespace

Result<std::int64_t> kineto_base_ns(const std::string& path) {
  Result<std::unique_ptr<FileSource>> file = FileSource::open(path);
  if (!file) return file.error();
  std::array<std::byte, 2> start{};
  const Result<std::size_t> got = file.value()->read(start);
  if (!got) return got.error();
  file.value()->move_to(0);
  GzipSource unpacked(*file.value());
  const bool is_packed = GzipSource::looks_like_gzip(std::span(start).first(got.value()));
  ByteSource& source = is_packed ? static_cast<ByteSource&>(unpacked) : *file.value();
  // Before or after the events; read in pieces that overlap by more than the key and its number.
  constexpr std::size_t kPiece = std::size_t{1} << 16;
  constexpr std::size_t kOverlap = 128;
  std::string text;
  bool has_events = false;
  while (true) {
    const std::size_t before = text.size();
    text.resize(before + kPiece);
    const Result<std::size_t> read =
        source.read(std::as_writable_bytes(std::span(text).subspan(before)));
    if (!read) return read.error();
    text.resize(before + read.value());
    if (const std::size_t key = text.find(kBaseKey); key != std::string::npos) {
      if (const auto base = number_after(std::string_view(text).substr(key + kBaseKey.size())))
        return *base;
    }
    has_events = has_events || text.find(kEventsKey) != std::string::npos;
    if (read.value() == 0) break;
    if (text.size() > kOverlap) text.erase(0, text.size() - kOverlap);
  }
  if (has_events) return std::int64_t{0};
  return Error{ErrorCode::bad_input, "this is not a trace of torch.profiler: it has no traceEvents",
               path, "name the file that export_chrome_trace() wrote"};
}

}  // namespace gpumemprof
