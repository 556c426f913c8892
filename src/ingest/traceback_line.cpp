#include "ingest/traceback_line.h"

#include <algorithm>
#include <charconv>

namespace gpumemprof {

std::optional<TracebackLine> read_traceback_line(std::string_view text) {
  constexpr std::string_view kFile = "File \"";
  constexpr std::string_view kLine = "\", line ";
  constexpr std::string_view kName = ", in ";
  text = text.substr(0, text.find('\n'));
  text.remove_prefix(std::min(text.find_first_not_of(' '), text.size()));
  if (!text.starts_with(kFile)) return std::nullopt;
  text.remove_prefix(kFile.size());
  // The last one: a file may have any name, a function may not.
  const std::size_t file_end = text.rfind(kLine);
  if (file_end == std::string_view::npos) return std::nullopt;
  TracebackLine read;
  read.file = text.substr(0, file_end);
  text.remove_prefix(file_end + kLine.size());
  const auto [after_number, error] =
      std::from_chars(text.data(), text.data() + text.size(), read.line);
  if (error != std::errc()) return std::nullopt;
  text.remove_prefix(static_cast<std::size_t>(after_number - text.data()));
  if (!text.starts_with(kName)) return std::nullopt;
  read.name = text.substr(kName.size());
  return read;
}

}  // namespace gpumemprof
