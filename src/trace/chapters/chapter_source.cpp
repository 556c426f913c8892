#include "trace/chapters/chapter_source.h"

#include <algorithm>
#include <map>

#include "base/byte_source.h"
#include "trace/chapters/chapter_join.h"
#include "trace/chapters/summary.h"
#include "trace/format.h"

namespace gpumemprof {
namespace {

// A summary is far smaller; a forged one must not exhaust the machine.
constexpr std::uint64_t kMostSummaryBytes = std::uint64_t{64} << 20;

}  // namespace

// Notes where it is.
class ChapterSource::Walk final : public ChapterWalk::Visitor {
 public:
  explicit Walk(ChapterSource& source) : source_(source) {}

  // What a chapter defines comes before its first block is reached.
  bool begin(std::uint32_t chapter) override {
    source_.place_.chapter = chapter;
    return true;
  }
  bool reach(const RecordingPlace& place, std::uint64_t bytes_before) override {
    source_.place_ = place;
    source_.bytes_before_ = bytes_before;
    if (source_.progress_) source_.progress_(bytes_before, source_.chapters_->total_bytes());
    return true;
  }

 private:
  ChapterSource& source_;
};

Result<std::unique_ptr<ChapterSource>> ChapterSource::open(const std::string& folder,
                                                           TraceReader::Progress progress) {
  Result<std::unique_ptr<HeldChapters>> chapters = HeldChapters::open(folder);
  if (!chapters) return chapters.error();
  return of(std::move(chapters).value(), std::move(progress));
}

std::unique_ptr<ChapterSource> ChapterSource::of(std::shared_ptr<HeldChapters> chapters,
                                                 TraceReader::Progress progress) {
  return std::unique_ptr<ChapterSource>(
      new ChapterSource(std::move(chapters), std::move(progress)));
}

RecordingPlace ChapterSource::begin() const {
  const std::uint32_t first = chapters_->files().front().number;
  return {first, first, {trace::kFileHeaderBytes, 0}};
}

bool ChapterSource::can_begin_here() const { return walk_ != nullptr && walk_->can_begin_here(); }

Status ChapterSource::deliver(EventSink& sink) {
  ChapterJoin join(sink);
  ChapterWalk walk(*chapters_, join, least_limit_bytes_);
  Walk visitor(*this);
  walk_ = &walk;
  Status walked = walk.run(0, visitor);
  walk_ = nullptr;
  if (!walked) return walked;
  std::vector<ChapterFigures> chapters;
  std::vector<StepSummary> steps;
  add_figures(walk.left_out(), chapters, steps);
  std::optional<CutPoint> cut = walk.cut();
  // The recorder removes old chapters, never the newest.
  if (!cut && chapters.back().number > chapters_->files().back().number)
    cut = CutPoint{0, chapter_name(chapters.back().number) + ": the file is missing"};
  join.finish(std::move(chapters), std::move(steps), std::move(cut));
  return Done{};
}

void ChapterSource::add_figures(const std::set<std::uint32_t>& left_out,
                                std::vector<ChapterFigures>& chapters,
                                std::vector<StepSummary>& steps) const {
  const Result<std::string> text =
      read_file(chapters_->folder() + "/" + std::string(kSummaryName), kMostSummaryBytes);
  FolderSummary summary = read_summary(text ? text.value() : std::string());
  std::map<std::uint32_t, ChapterFigures> by_number;
  for (ChapterFigures& chapter : summary.chapters) by_number[chapter.number] = std::move(chapter);
  for (const ChapterFile& file : chapters_->files()) {
    ChapterFigures& chapter = by_number[file.number];
    chapter.number = file.number;
    chapter.is_kept = !left_out.contains(file.number);
    chapter.size_bytes = file.size_bytes;
  }
  for (auto& [number, chapter] : by_number) chapters.push_back(std::move(chapter));
  steps = std::move(summary.steps);
}

}  // namespace gpumemprof
