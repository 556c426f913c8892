#include "cli/flags/number_flag.h"

#include <fmt/core.h>

#include <charconv>

namespace gpumemprof::cli {
namespace {

std::string range_text(const NumberFlag& flag) {
  if (flag.most == UINT64_MAX) return fmt::format("a whole number of at least {}", flag.least);
  return fmt::format("a whole number from {} to {}", flag.least, flag.most);
}

}  // namespace

Result<std::optional<std::uint64_t>> parse_number(const std::optional<std::string>& text,
                                                  const NumberFlag& flag) {
  if (!text) return std::optional<std::uint64_t>();
  std::uint64_t number = 0;
  const char* const end = text->data() + text->size();
  const auto [stop, error] = std::from_chars(text->data(), end, number);
  if (error != std::errc() || stop != end || number < flag.least || number > flag.most) {
    return Error{ErrorCode::usage,
                 fmt::format("{} takes {}, not '{}'", flag.name, range_text(flag), *text), "",
                 flag.hint};
  }
  return std::optional<std::uint64_t>(number);
}

}  // namespace gpumemprof::cli
