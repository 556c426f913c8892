#include "cli/flags/size_flag.h"

#include <optional>

#include "base/bytes.h"

namespace gpumemprof::cli {

Result<std::uint64_t> parse_size(const std::string& text, const std::string& flag) {
  const std::optional<std::uint64_t> bytes = parse_bytes(text);
  if (bytes && *bytes > 0) return *bytes;
  return Error{ErrorCode::usage, flag + " takes a size, not '" + text + "'", "",
               "try " + flag + " 24GiB"};
}

}  // namespace gpumemprof::cli
