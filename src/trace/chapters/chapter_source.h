// ChapterSource: a folder of chapters → events, as if it were one recording.
#pragma once

#include <memory>
#include <set>
#include <string>
#include <vector>

#include "event/event_sink.h"
#include "trace/chapters/chapter_walk.h"
#include "trace/chapters/held_chapters.h"
#include "trace/reader.h"

namespace gpumemprof {

class ChapterSource final : public PlacedSource {
 public:
  // Fails if it is not a folder of chapters.
  static Result<std::unique_ptr<ChapterSource>> open(const std::string& folder,
                                                     TraceReader::Progress progress = {});
  // Of a folder that is read more than once.
  static std::unique_ptr<ChapterSource> of(std::shared_ptr<HeldChapters> chapters,
                                           TraceReader::Progress progress = {});

  // Allows more memory than files of their size may normally take.
  void allow_memory(std::uint64_t bytes) { least_limit_bytes_ = bytes; }

  Status deliver(EventSink& sink) override;
  [[nodiscard]] RecordingPlace begin() const override;
  [[nodiscard]] RecordingPlace place() const override { return place_; }
  [[nodiscard]] bool can_begin_here() const override;
  [[nodiscard]] std::uint64_t bytes_before() const override { return bytes_before_; }

 private:
  class Walk;
  ChapterSource(std::shared_ptr<HeldChapters> chapters, TraceReader::Progress progress)
      : chapters_(std::move(chapters)), progress_(std::move(progress)) {}

  // What the folder says about all chapters, those that are gone too.
  void add_figures(const std::set<std::uint32_t>& left_out, std::vector<ChapterFigures>& chapters,
                   std::vector<StepSummary>& steps) const;

  std::shared_ptr<HeldChapters> chapters_;
  TraceReader::Progress progress_;
  std::uint64_t least_limit_bytes_ = 0;
  const ChapterWalk* walk_ = nullptr;  // while it delivers
  RecordingPlace place_;
  std::uint64_t bytes_before_ = 0;
};

}  // namespace gpumemprof
