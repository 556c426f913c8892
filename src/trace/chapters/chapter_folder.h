// A folder of chapters: the names of the files in it, and its summary.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace gpumemprof {

struct ChapterFile {
  std::uint32_t number = 0;  // counted from 1
  std::string path;
  std::uint64_t size_bytes = 0;
};

// "chapter-000001.gmp"
std::string chapter_name(std::uint32_t number);
inline constexpr std::string_view kSummaryName = "summary";

[[nodiscard]] bool is_folder(const std::string& path);
// In order of number. Fails if it is not a folder of chapters.
Result<std::vector<ChapterFile>> list_chapters(const std::string& folder);

}  // namespace gpumemprof
