// ChapterShelf: the folder that a long recording is written to: where its chapters are, which of
// them are kept, and its summary.
//
// Kept as long as there is room, the last in this list first to go, the oldest of its kind first:
//
//   the chapters with the highest peaks of the run, and the newest one: always
//   the newest ones
//   the first ones
//   those in which the program ran out of memory
//   those in which the pool may have been flushed to make room
//   those whose number is a power of two: a sample of the whole run
//   all others
//
// For the drain thread alone, except open().
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/file_sink.h"
#include "base/result.h"
#include "event/chapter_figures.h"

namespace gpumemprof::capture {

struct ChapterLimits {
  std::uint64_t keep_bytes = 0;  // of the whole folder, without the chapter being written
  std::uint64_t chapter_events = 1'000'000;
  std::int64_t chapter_ns = std::int64_t{1'800} * 1'000'000'000;

  // The first ones are shorter, so that the first steps are in few events.
  [[nodiscard]] std::uint64_t events_of(std::uint32_t number) const {
    constexpr std::uint32_t kFirstWhole = 5;
    return number >= kFirstWhole ? chapter_events : chapter_events >> (kFirstWhole - number);
  }
  // What a chapter may add to the state it begins with.
  [[nodiscard]] std::uint64_t chapter_bytes() const { return keep_bytes / 32; }
};

class ChapterShelf {
 public:
  ChapterShelf(std::string folder, const ChapterLimits& limits);

  // Makes the folder and begins its summary. A folder of chapters that is there already is emptied
  // if it may be replaced, unless another recording is writing it.
  Status open(FileSink::Existing existing);

  [[nodiscard]] const std::string& folder() const { return folder_; }
  // It is made later than this, under a name that may be another by then.
  void set_folder(std::string folder) { folder_ = std::move(folder); }
  [[nodiscard]] std::string path_of(std::uint32_t number) const;
  [[nodiscard]] const ChapterLimits& limits() const { return limits_; }
  // A chapter was closed: writes its summary, and removes chapters if there is no room for it.
  // Fails if the summary cannot be written.
  Status add(ChapterFigures chapter, std::vector<StepSummary> steps);
  // Of all that is there, without the chapter being written.
  [[nodiscard]] std::uint64_t size_bytes() const;

 private:
  // How much it matters to keep it; more is better.
  [[nodiscard]] int worth(const ChapterFigures& chapter) const;
  [[nodiscard]] bool holds_peak(const ChapterFigures& chapter) const;
  void make_room();
  // As size_bytes(), in blocks of the disk.
  [[nodiscard]] std::uint64_t disk_bytes() const;
  Status write_summary(const std::string& lines);
  // Half as many steps, if they take too much room.
  Status shorten_summary();
  Status begin_summary(FileSink::Existing existing);

  std::string folder_;
  ChapterLimits limits_;
  std::unique_ptr<FileSink> summary_;
  std::uint64_t most_summary_bytes_;
  std::uint64_t closed_bytes_ = 0;
  std::vector<ChapterFigures> kept_;           // in order
  std::vector<ChapterFigures::Device> peaks_;  // of the run so far, by device
};

}  // namespace gpumemprof::capture
