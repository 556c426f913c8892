#include "trace/chapters/chapter_folder.h"

#include <algorithm>
#include <charconv>
#include <cstdio>
#include <filesystem>
#include <optional>
#include <system_error>

namespace gpumemprof {
namespace {

constexpr std::string_view kPrefix = "chapter-";
constexpr std::string_view kSuffix = ".gmp";

std::optional<std::uint32_t> number_of(std::string_view name) {
  if (!name.starts_with(kPrefix) || !name.ends_with(kSuffix)) return std::nullopt;
  const std::string_view digits =
      name.substr(kPrefix.size(), name.size() - kPrefix.size() - kSuffix.size());
  std::uint32_t number = 0;
  const auto [end, problem] = std::from_chars(digits.data(), digits.data() + digits.size(), number);
  const bool is_read = problem == std::errc() && end == digits.data() + digits.size();
  // Copies have other names: no chapter is there twice.
  return is_read && number > 0 && name == chapter_name(number) ? std::optional(number)
                                                               : std::nullopt;
}

}  // namespace

std::string chapter_name(std::uint32_t number) {
  char name[32];
  std::snprintf(name, sizeof(name), "chapter-%06u.gmp", static_cast<unsigned>(number));
  return name;
}

bool is_folder(const std::string& path) {
  std::error_code ignored;
  return path.find('\0') == std::string::npos && std::filesystem::is_directory(path, ignored);
}

Result<std::vector<ChapterFile>> list_chapters(const std::string& folder) {
  std::vector<ChapterFile> files;
  std::error_code problem;
  std::filesystem::directory_iterator entry(folder, problem);
  for (; !problem && entry != std::filesystem::directory_iterator(); entry.increment(problem)) {
    const std::optional<std::uint32_t> number = number_of(entry->path().filename().string());
    if (!number) continue;
    std::error_code gone;
    const std::uintmax_t size_bytes = entry->file_size(gone);
    if (!gone) files.push_back({*number, entry->path().string(), size_bytes});
  }
  if (problem) {
    return Error{ErrorCode::bad_input, "the folder cannot be read (" + problem.message() + ")",
                 folder, "check that it is a folder you may read"};
  }
  if (files.empty()) {
    return Error{ErrorCode::bad_input, "this is a folder without a recording in it", folder,
                 "name a file in it, or a folder that 'gpumemprof run --keep' wrote"};
  }
  std::ranges::sort(files, {}, &ChapterFile::number);
  return files;
}

}  // namespace gpumemprof
