#include "cli/flags/size_flag.h"

#include <optional>

#include "base/bytes.h"

namespace gpumemprof::cli {

// Programs write whole numbers of bytes; a person who types a small one means another unit.
bool is_unit_forgotten(std::string_view text, std::uint64_t bytes) {
  return bytes < kMiB && text.find_first_not_of("0123456789.") == std::string_view::npos;
}

Result<std::uint64_t> parse_size(const std::string& text, const std::string& flag) {
  const std::optional<std::uint64_t> bytes = parse_bytes(text);
  if (bytes && *bytes > 0 && !is_unit_forgotten(text, *bytes)) return *bytes;
  if (bytes && *bytes > 0)
    return Error{ErrorCode::usage, flag + " takes a size with its unit, not '" + text + "'", "",
                 "try " + flag + " " + text + "GiB, or " + text + "B for bytes"};
  return Error{ErrorCode::usage, flag + " takes a size, not '" + text + "'", "",
               "try " + flag + " 24GiB"};
}

}  // namespace gpumemprof::cli
