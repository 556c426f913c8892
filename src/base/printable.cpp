#include "base/printable.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>

#include "base/utf8.h"

namespace gpumemprof {
namespace {

constexpr std::array<std::string_view, 4> kStyles = {"\033[1m", "\033[2m", "\033[1;31m", "\033[0m"};

bool acts_on_terminal(char32_t letter) {
  if (letter < 0x20 || (letter >= 0x7F && letter < 0xA0)) return true;
  if (letter < 0x061C) return letter == 0xAD;
  return letter == 0x061C || letter == 0x180E || letter == 0x200B || letter == 0x200E ||
         letter == 0x200F || (letter >= 0x2028 && letter <= 0x202E) ||
         (letter >= 0x2060 && letter <= 0x206F) || letter == 0xFEFF ||
         (letter >= 0xFFF9 && letter <= 0xFFFB) || (letter >= 0xE0000 && letter <= 0xE007F);
}

bool is_plain(std::string_view text) {
  return std::ranges::all_of(text, [](char letter) { return letter >= 0x20 && letter < 0x7F; });
}

// Calls take(code point, its bytes) for each character; what is not UTF-8 is passed as code point
// 0.
template <typename Take>
void for_each_character(std::string_view text, Take&& take) {
  while (!text.empty()) {
    const std::size_t length = utf8_sequence_length(text);
    const std::string_view bytes = text.substr(0, std::max<std::size_t>(length, 1));
    take(length == 0 ? char32_t{0} : utf8_code_point(bytes), bytes);
    text.remove_prefix(bytes.size());
  }
}

}  // namespace

std::string printable(std::string_view text) {
  if (is_plain(text)) return std::string(text);
  std::string clean;
  for_each_character(text, [&](char32_t letter, std::string_view bytes) {
    if (acts_on_terminal(letter)) {
      clean += '.';
    } else {
      clean += bytes;
    }
  });
  return clean;
}

std::string printable_page(std::string_view text, bool has_color) {
  std::string page;
  while (!text.empty()) {
    const auto style = std::ranges::find_if(
        kStyles, [&](std::string_view known) { return text.starts_with(known); });
    if (has_color && style != kStyles.end()) {
      page += *style;
      text.remove_prefix(style->size());
      continue;
    }
    // Up to the next character that may be ours.
    const std::size_t end = std::min(text.find_first_of("\n\033", 1), text.size());
    const bool is_line_end = text.front() == '\n';
    if (is_line_end) page += '\n';
    page += printable(text.substr(is_line_end ? 1 : 0, end - (is_line_end ? 1 : 0)));
    text.remove_prefix(end);
  }
  return page;
}

std::string printable_json(std::string_view json) {
  std::string clean;
  for_each_character(json, [&](char32_t letter, std::string_view bytes) {
    // Below that there are only the whitespace and line ends between values.
    if (letter < 0x7F || !acts_on_terminal(letter)) {
      clean += bytes;
    } else if (letter < 0x10000) {
      clean += fmt::format("\\u{:04x}", static_cast<unsigned>(letter));
    } else {
      const auto rest = static_cast<unsigned>(letter - 0x10000);
      clean += fmt::format("\\u{:04x}\\u{:04x}", 0xD800 + (rest >> 10), 0xDC00 + (rest & 0x3FF));
    }
  });
  return clean;
}

}  // namespace gpumemprof
