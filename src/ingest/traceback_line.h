// One frame as Python's traceback module writes it:
//
//     File "/train/model.py", line 31, in forward
//       return self.head(x)
//
// The source line, and whatever else follows the first line, may be missing.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace gpumemprof {

// The views point into the text that was read.
struct TracebackLine {
  std::string_view file;
  std::string_view name;
  std::uint32_t line = 0;
};

// Nothing where the text has a different form.
std::optional<TracebackLine> read_traceback_line(std::string_view text);

}  // namespace gpumemprof
