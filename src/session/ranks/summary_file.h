// Reads the file of a rank's summary fast: a report about thousands of ranks needs the first line
// of each, and the columns that ranks are compared by.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/byte_source.h"

namespace gpumemprof {

struct SummaryOfDevice {
  std::string held;  // the line of what holds the memory at the peak
  std::vector<std::int64_t> steps;
  std::vector<std::int64_t> peaks;
};

struct SummaryFile {
  std::string head;  // the first line
  std::vector<SummaryOfDevice> devices;
};

// Only in the exact form in which the summary is written (docs/format.md); none for anything else,
// which a reader of JSON may still understand. What follows the columns is not read.
std::optional<SummaryFile> read_summary_file(const std::string& path);
// Ends early where the source does not begin as a summary does, or a line has no end.
std::optional<SummaryFile> read_summary(ByteSource& source);
std::optional<SummaryFile> parse_summary(std::string_view text);

}  // namespace gpumemprof
