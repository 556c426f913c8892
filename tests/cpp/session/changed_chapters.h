// Folders of chapters as they are found: whole, with gaps, cut off, damaged.
#pragma once

#include <array>
#include <fstream>
#include <string>
#include <string_view>

#include "session/recorded_chapters.h"
#include "trace/chapters/chapter_folder.h"

namespace gpumemprof {

inline constexpr std::array<std::string_view, 6> kChangedChapters = {
    "whole", "gaps", "gaps_of_expandable_segments", "cut_off", "damaged", "without_the_first"};

inline void flip_a_byte(const std::string& path, std::uint64_t offset) {
  std::fstream file(path, std::ios::binary | std::ios::in | std::ios::out);
  file.seekg(static_cast<std::streamoff>(offset));
  const int byte = file.get();
  file.seekp(static_cast<std::streamoff>(offset));
  file.put(static_cast<char>(byte ^ 0x55));
}

// A run of some thousand events in chapters of 500, then changed.
inline void make_chapters(const std::string& folder, std::string_view change, std::uint32_t seed) {
  Workload run;
  run.seed = seed;
  if (change == "gaps_of_expandable_segments") run.settings = "expandable_segments:True";
  record(run, {options_of(folder, kEverything)});
  std::mt19937 random(seed);
  const std::vector<ChapterFile> all = list_chapters(folder).value();
  ASSERT_GT(all.size(), 8U);
  for (const ChapterFile& one : all) {
    const bool is_last = one.number == all.back().number;
    const bool is_removed = (change.starts_with("gaps") && !is_last && random() % 3 == 0) ||
                            (change == "without_the_first" && one.number < 4);
    if (is_removed) fs::remove(one.path);
    if (change == "cut_off" && is_last) fs::resize_file(one.path, one.size_bytes / 2);
    if (change == "damaged" && random() % 4 == 0) flip_a_byte(one.path, one.size_bytes * 2 / 3);
  }
}

}  // namespace gpumemprof
