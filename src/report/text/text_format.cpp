#include "report/text/text_format.h"

#include <fmt/core.h>

#include "base/printable.h"

namespace gpumemprof::text {
namespace {

bool is_continuation(char byte) { return (static_cast<unsigned char>(byte) & 0xC0) == 0x80; }

// The first `count` code points.
std::string_view head(std::string_view text, std::size_t count) {
  std::size_t index = 0;
  for (; index < text.size(); ++index) {
    if (!is_continuation(text[index]) && count-- == 0) break;
  }
  return text.substr(0, index);
}

std::string_view tail(std::string_view text, std::size_t count) {
  return text.substr(head(text, columns(text) - count).size());
}

std::string escaped(std::string_view text) {
  std::string escaped = "$'";
  for (const char letter : text) {
    const bool is_plain = letter >= 0x20 && letter < 0x7F && letter != '\'' && letter != '\\';
    escaped += is_plain ? std::string(1, letter)
                        : fmt::format("\\x{:02x}", static_cast<unsigned char>(letter));
  }
  return escaped + "'";
}

}  // namespace

std::size_t columns(std::string_view text) {
  std::size_t count = 0;
  for (const char byte : text) count += is_continuation(byte) ? 0U : 1U;
  return count;
}

std::string grouped(std::uint64_t number) {
  std::string digits = std::to_string(number);
  for (std::size_t at = digits.size(); at > 3; at -= 3) digits.insert(at - 3, ",");
  return digits;
}

std::string counted(std::uint64_t number, std::string_view noun) {
  return counted(number, noun, std::string(noun) + "s");
}

std::string counted(std::uint64_t number, std::string_view one, std::string_view many) {
  return fmt::format("{} {}", grouped(number), number == 1 ? one : many);
}

std::string percent(std::uint64_t part, std::uint64_t whole) {
  if (whole == 0) return "-";
  const double share = 100.0 * static_cast<double>(part) / static_cast<double>(whole);
  if (part != 0 && share < 0.05) return "<0.1 %";
  return fmt::format("{:.1f} %", share);
}

std::string duration(std::int64_t nanoseconds) {
  const double seconds = static_cast<double>(nanoseconds) / 1e9;
  if (seconds < 0) return "-" + duration(-nanoseconds);
  if (seconds < 1e-3) return fmt::format("{:.0f} µs", seconds * 1e6);
  if (seconds < 1) return fmt::format("{:.0f} ms", seconds * 1e3);
  if (seconds < 100) return fmt::format("{:.2f} s", seconds);
  const auto whole = static_cast<std::uint64_t>(seconds);
  if (whole < 3600) return fmt::format("{} min {:02} s", whole / 60, whole % 60);
  return fmt::format("{} h {:02} min", whole / 3600, whole / 60 % 60);
}

std::string file_name(const std::string& path) {
  return printable(path.substr(path.find_last_of('/') + 1));
}

std::string quoted(const std::string& text) {
  constexpr const char* kPlain =
      "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789/._-+=:@%,";
  if (!text.empty() && text.find_first_not_of(kPlain) == std::string::npos) return text;
  // A name that a terminal would act on is written with the shell's escapes.
  if (printable(text) != text) return escaped(text);
  std::string quoted = "'";
  for (const char c : text) quoted += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return quoted + "'";
}

std::string shortened(const std::string& text, std::size_t width) {
  const std::size_t length = columns(text);
  if (length <= width) return text;
  if (width < 4) return std::string(head(text, width));
  const std::size_t front = (width - 1) / 3;
  return fmt::format("{}…{}", head(text, front), tail(text, width - 1 - front));
}

std::string left(std::string_view text, std::size_t width) {
  const std::size_t length = columns(text);
  return std::string(text) + std::string(length < width ? width - length : 0, ' ');
}

std::string right(std::string_view text, std::size_t width) {
  const std::size_t length = columns(text);
  return std::string(length < width ? width - length : 0, ' ') + std::string(text);
}

std::string wrapped(std::string_view text, std::size_t width, std::size_t indent) {
  std::string lines;
  std::size_t column = indent;
  bool is_first = true;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find(' '), text.size());
    const std::string_view word = text.substr(0, end);
    if (!is_first && column + 1 + columns(word) > width) {
      lines += "\n" + std::string(indent, ' ');
      column = indent;
    } else if (!is_first) {
      lines += ' ';
      ++column;
    }
    is_first = false;
    lines += word;
    column += columns(word);
    text.remove_prefix(end == text.size() ? end : end + 1);
  }
  return lines;
}

}  // namespace gpumemprof::text
