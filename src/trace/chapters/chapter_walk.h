// ChapterWalk: goes through the files of a folder of chapters, block by block, into a join.
#pragma once

#include <optional>
#include <set>
#include <string>

#include "trace/chapters/chapter_join.h"
#include "trace/chapters/held_chapters.h"
#include "trace/recording_place.h"

namespace gpumemprof {

class ChapterWalk {
 public:
  // All must outlive it. `least_limit_bytes`: allows more memory than files of their size may
  // normally take.
  ChapterWalk(HeldChapters& chapters, ChapterJoin& join, std::uint64_t least_limit_bytes)
      : chapters_(chapters), join_(join), least_limit_bytes_(least_limit_bytes) {}

  class Visitor {
   public:
    Visitor() = default;
    Visitor(const Visitor&) = delete;
    Visitor& operator=(const Visitor&) = delete;
    virtual ~Visitor() = default;
    // Nothing of the chapter has been delivered yet. False: it ends here, with an error.
    virtual bool begin(std::uint32_t /*chapter*/) { return true; }
    // Before a block is delivered; `bytes_before` of all files. False: it ends here.
    virtual bool reach(const RecordingPlace& place, std::uint64_t bytes_before) = 0;
  };

  // From this chapter on, as far as the visitor wants.
  Status run(std::uint32_t first_chapter, Visitor& visitor);

  // Where the first chapter that is not whole ends, and why.
  [[nodiscard]] std::optional<CutPoint> cut() const;
  // Chapters of which nothing could be used, by number.
  [[nodiscard]] const std::set<std::uint32_t>& left_out() const { return left_out_; }
  // Whether a later block can be read without what came before this one in the chapter.
  [[nodiscard]] bool can_begin_here() const { return can_begin_here_; }

 private:
  enum class Outcome : std::uint8_t { more, ended };
  Outcome deliver(const ChapterFile& file, FileSource& source, Visitor& visitor);
  [[nodiscard]] std::uint64_t limit_of(const ChapterFile& file) const;
  [[nodiscard]] std::string why_misplaced(const ChapterFile& file, FileSource& source);
  void leave_out(const ChapterFile& file, const std::string& why);
  void note_cut(const ChapterFile& file, std::uint64_t byte_offset, const std::string& why);

  HeldChapters& chapters_;
  ChapterJoin& join_;
  std::uint64_t least_limit_bytes_;
  std::uint64_t done_bytes_ = 0;
  bool can_begin_here_ = false;
  std::optional<CutPoint> cut_;
  std::uint32_t cuts_ = 0;
  std::set<std::uint32_t> left_out_;
  std::string process_;  // that recorded the first chapter
};

}  // namespace gpumemprof
