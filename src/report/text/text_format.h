// Small pieces of text shared by all text reports, so that they use the same wording.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace gpumemprof::text {

// "1,234,567"
std::string grouped(std::uint64_t number);
// "1 block", "1,203 blocks"
std::string counted(std::uint64_t number, std::string_view noun);
std::string counted(std::uint64_t number, std::string_view one, std::string_view many);
// "5.3 %"; "-" where there is no whole
std::string percent(std::uint64_t part, std::uint64_t whole);
// "0.31 s", "12.4 ms", "2 min 05 s"
std::string duration(std::int64_t nanoseconds);
// The last part of a path.
std::string file_name(const std::string& path);
// A path or text quoted for a shell.
std::string quoted(const std::string& text);
// Terminal columns that `text` takes, counted in code points.
std::size_t columns(std::string_view text);
// At most `width` columns; the middle is replaced by "…".
std::string shortened(const std::string& text, std::size_t width);
// `text` padded to `width` columns on the right or left.
std::string left(std::string_view text, std::size_t width);
std::string right(std::string_view text, std::size_t width);
// Wraps at blanks so that no line, indented by `indent`, is longer than `width`. The first line is
// not indented.
std::string wrapped(std::string_view text, std::size_t width, std::size_t indent);

}  // namespace gpumemprof::text
