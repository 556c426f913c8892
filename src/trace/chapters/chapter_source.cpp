#include "trace/chapters/chapter_source.h"

#include <algorithm>
#include <map>

#include "trace/chapters/chapter_join.h"
#include "trace/chapters/summary.h"
#include "trace/delivery.h"
#include "trace/reader.h"

namespace gpumemprof {
namespace {

// A summary is far smaller; a forged one must not exhaust the machine.
constexpr std::size_t kMostSummaryBytes = std::size_t{64} << 20;

std::string read_text(const std::string& path) {
  const Result<std::unique_ptr<FileSource>> file = FileSource::open(path);
  std::string text;
  if (!file) return text;
  text.resize(std::min<std::uint64_t>(file.value()->size_bytes(), kMostSummaryBytes));
  std::size_t have = 0;
  while (have < text.size()) {
    const Result<std::size_t> got =
        file.value()->read(std::as_writable_bytes(std::span(text).subspan(have)));
    if (!got || got.value() == 0) break;
    have += got.value();
  }
  text.resize(have);
  return text;
}

// All chapters together may take what one file of their size may.
std::uint64_t share_of_limit(std::uint64_t bytes, std::uint64_t total_bytes) {
  const double share = static_cast<double>(bytes) / static_cast<double>(total_bytes);
  return static_cast<std::uint64_t>(static_cast<double>(memory_limit_bytes(total_bytes)) * share);
}

}  // namespace

Result<std::unique_ptr<ChapterSource>> ChapterSource::open(const std::string& folder,
                                                           TraceReader::Progress progress) {
  Result<std::vector<ChapterFile>> files = list_chapters(folder);
  if (!files) return files.error();
  return std::unique_ptr<ChapterSource>(
      new ChapterSource(folder, std::move(files).value(), std::move(progress)));
}

Status ChapterSource::deliver(EventSink& sink) {
  std::uint64_t total_bytes = 0;
  for (const ChapterFile& file : files_) total_bytes += file.size_bytes;
  ChapterJoin join(sink);
  std::optional<CutPoint> cut;
  std::optional<Error> refusal;
  std::uint64_t done_bytes = 0;
  bool has_any = false;
  for (const ChapterFile& file : files_) {
    Result<std::unique_ptr<FileSource>> source = FileSource::open(file.path);
    if (!source) continue;  // the recorder has removed it since
    const Result<int> version = trace::read_file_header(*source.value(), file.path);
    if (!version) {
      // One that was created the moment the process was killed has no header yet.
      if (file.size_bytes >= trace::kFileHeaderBytes) refusal = version.error();
      continue;
    }
    join.begin(file.number);
    trace::Delivery delivery(
        *source.value(), version.value(), join,
        std::max(share_of_limit(file.size_bytes, total_bytes), least_limit_bytes_));
    while (delivery.step() == trace::Delivery::Outcome::more) {
      if (progress_) progress_(done_bytes + delivery.byte_offset(), total_bytes);
    }
    delivery.finish();
    join.end(delivery.ending(), delivery.cut().has_value());
    if (delivery.cut())
      cut = CutPoint{delivery.cut()->byte_offset,
                     chapter_name(file.number) + ": " + delivery.cut()->reason};
    done_bytes += file.size_bytes;
    has_any = true;
  }
  if (!has_any) {
    if (refusal) return *refusal;
    return Error{ErrorCode::bad_input, "the recording is empty", folder_, "record again"};
  }
  if (refusal) cut = CutPoint{0, refusal->where + ": " + refusal->message};
  std::vector<ChapterFigures> chapters;
  std::vector<StepSummary> steps;
  add_figures(chapters, steps);
  join.finish(std::move(chapters), std::move(steps), std::move(cut));
  return Done{};
}

void ChapterSource::add_figures(std::vector<ChapterFigures>& chapters,
                                std::vector<StepSummary>& steps) const {
  FolderSummary summary = read_summary(read_text(folder_ + "/" + std::string(kSummaryName)));
  std::map<std::uint32_t, ChapterFigures> by_number;
  for (ChapterFigures& chapter : summary.chapters) by_number[chapter.number] = std::move(chapter);
  for (const ChapterFile& file : files_) {
    ChapterFigures& chapter = by_number[file.number];
    chapter.number = file.number;
    chapter.is_kept = true;
    chapter.size_bytes = file.size_bytes;
  }
  for (auto& [number, chapter] : by_number) chapters.push_back(std::move(chapter));
  steps = std::move(summary.steps);
}

}  // namespace gpumemprof
