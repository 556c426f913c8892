// ChapterSource: a folder of chapters → events, as if it were one recording.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "event/event_sink.h"
#include "trace/chapters/chapter_folder.h"
#include "trace/reader.h"

namespace gpumemprof {

class ChapterSource final : public EventSource {
 public:
  // Fails if it is not a folder of chapters.
  static Result<std::unique_ptr<ChapterSource>> open(const std::string& folder,
                                                     TraceReader::Progress progress = {});

  // Allows more memory than files of their size may normally take.
  void allow_memory(std::uint64_t bytes) { least_limit_bytes_ = bytes; }

  Status deliver(EventSink& sink) override;

 private:
  ChapterSource(std::string folder, std::vector<ChapterFile> files, TraceReader::Progress progress)
      : folder_(std::move(folder)), files_(std::move(files)), progress_(std::move(progress)) {}

  // What the folder says about all chapters, those that are gone too.
  void add_figures(std::vector<ChapterFigures>& chapters, std::vector<StepSummary>& steps) const;

  std::string folder_;
  std::vector<ChapterFile> files_;
  TraceReader::Progress progress_;
  std::uint64_t least_limit_bytes_ = 0;
};

}  // namespace gpumemprof
