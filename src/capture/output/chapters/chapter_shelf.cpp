#include "capture/output/chapters/chapter_shelf.h"

#include <algorithm>
#include <bit>
#include <filesystem>
#include <fstream>
#include <system_error>
#include <utility>

#include "trace/chapters/chapter_folder.h"
#include "trace/chapters/summary.h"

namespace gpumemprof::capture {
namespace {

constexpr std::uint32_t kFirstChapters = 3;
constexpr std::size_t kNewestChapters = 4;
// A summary takes no more than this share of the room, and never more than the other.
constexpr std::uint64_t kSummaryShare = 32;
constexpr std::uint64_t kMostSummaryBytes = std::uint64_t{4} << 20;
// What the next chapter takes before the last one has been closed, and blocks of the disk.
constexpr std::uint64_t kNextBytes = std::uint64_t{256} << 10;
constexpr std::uint64_t kBlockBytes = 4096;  // of most file systems
constexpr int kAlways = 100;

Error cannot_make(const std::string& folder, const std::error_code& problem) {
  return {ErrorCode::environment, "the folder cannot be made (" + problem.message() + ")", folder,
          "check that you may write there"};
}

Error is_there(const std::string& folder) {
  return {ErrorCode::usage, "the recording already exists", folder,
          "choose another name, or use -f to replace it"};
}

// Only what a recording leaves: nothing else is ever removed.
Status empty_folder(const std::string& folder) {
  const Result<std::vector<ChapterFile>> files = list_chapters(folder);
  if (!files) return Done{};  // none
  for (const ChapterFile& file : files.value()) {
    std::error_code problem;
    std::filesystem::remove(file.path, problem);
    if (problem) return cannot_make(file.path, problem);
  }
  return Done{};
}

std::uint64_t& peak_of(std::vector<ChapterFigures::Device>& peaks, DeviceIndex index,
                       std::uint64_t ChapterFigures::Device::* which) {
  auto found = std::ranges::find(peaks, index, &ChapterFigures::Device::device);
  if (found == peaks.end()) {
    peaks.push_back({});
    peaks.back().device = index;
    found = peaks.end() - 1;
  }
  return (*found).*which;
}

}  // namespace

ChapterShelf::ChapterShelf(std::string folder, const ChapterLimits& limits)
    : limits_(limits),
      most_summary_bytes_(std::min(limits.keep_bytes / kSummaryShare, kMostSummaryBytes)) {
  // The program may change its working directory.
  std::error_code ignored;
  folder_ = std::filesystem::absolute(folder, ignored).string();
  if (folder_.empty()) folder_ = std::move(folder);
}

std::string ChapterShelf::path_of(std::uint32_t number) const {
  return folder_ + "/" + chapter_name(number);
}

Status ChapterShelf::open(FileSink::Existing existing) {
  std::error_code problem;
  const std::filesystem::file_status there = std::filesystem::symlink_status(folder_, problem);
  const bool is_new = there.type() == std::filesystem::file_type::not_found;
  if (!is_new && existing == FileSink::Existing::refuse) return is_there(folder_);
  if (!is_new && !is_folder(folder_)) {
    // A file that another recording is writing is not ours to replace.
    if (Result<std::unique_ptr<FileSink>> file =
            FileSink::create(folder_, FileSink::Existing::replace);
        !file)
      return file.error();
    std::filesystem::remove(folder_, problem);
    if (problem) return cannot_make(folder_, problem);
  }
  std::filesystem::create_directory(folder_, problem);
  if (problem) return cannot_make(folder_, problem);
  if (Status begun = begin_summary(existing); !begun) return begun;
  return empty_folder(folder_);
}

// It is locked while the recording goes on, so that no other one takes the folder.
Status ChapterShelf::begin_summary(FileSink::Existing existing) {
  Result<std::unique_ptr<FileSink>> file =
      FileSink::create(folder_ + "/" + std::string(kSummaryName), existing);
  if (!file) return file.error();
  summary_ = std::move(file).value();
  return summary_->write(std::as_bytes(std::span(kSummaryTitle)));
}

bool ChapterShelf::holds_peak(const ChapterFigures& chapter) const {
  return std::ranges::any_of(chapter.devices, [&](const ChapterFigures::Device& mine) {
    const auto peak = std::ranges::find(peaks_, mine.device, &ChapterFigures::Device::device);
    if (peak == peaks_.end()) return false;
    // The first to reach it.
    const auto reaches = [&](std::uint64_t ChapterFigures::Device::* which) {
      if (mine.*which < (*peak).*which) return false;
      const auto first = std::ranges::find_if(kept_, [&](const ChapterFigures& other) {
        return std::ranges::any_of(other.devices, [&](const ChapterFigures::Device& device) {
          return device.device == mine.device && device.*which >= (*peak).*which;
        });
      });
      return first != kept_.end() && first->number == chapter.number;
    };
    return reaches(&ChapterFigures::Device::peak_allocated_bytes) ||
           reaches(&ChapterFigures::Device::peak_reserved_bytes);
  });
}

int ChapterShelf::worth(const ChapterFigures& chapter) const {
  if (chapter.number == kept_.back().number || holds_peak(chapter)) return kAlways;
  const std::size_t newer = static_cast<std::size_t>(
      kept_.end() - std::ranges::upper_bound(kept_, chapter.number, {}, &ChapterFigures::number));
  if (newer < kNewestChapters) return 5;
  if (chapter.number <= kFirstChapters) return 4;
  if (chapter.failures > 0) return 3;
  if (chapter.retries > 0) return 2;
  return std::has_single_bit(chapter.number) ? 1 : 0;
}

void ChapterShelf::make_room() {
  while (disk_bytes() + kNextBytes > limits_.keep_bytes) {
    const auto least = std::ranges::min_element(
        kept_, {}, [&](const ChapterFigures& chapter) { return worth(chapter); });
    if (least == kept_.end() || worth(*least) == kAlways) return;
    std::error_code ignored;  // whoever removed it before us made room too
    std::filesystem::remove(path_of(least->number), ignored);
    closed_bytes_ -= least->size_bytes;
    kept_.erase(least);
  }
}

Status ChapterShelf::add(ChapterFigures chapter, std::vector<StepSummary> steps) {
  if (summary_ == nullptr) {
    if (Status begun = begin_summary(FileSink::Existing::refuse); !begun) return begun;
  }
  const Status written = write_summary(summary_lines(chapter, steps));
  for (const ChapterFigures::Device& device : chapter.devices) {
    for (const auto which : {&ChapterFigures::Device::peak_allocated_bytes,
                             &ChapterFigures::Device::peak_reserved_bytes}) {
      std::uint64_t& peak = peak_of(peaks_, device.device, which);
      peak = std::max(peak, device.*which);
    }
  }
  closed_bytes_ += chapter.size_bytes;
  kept_.push_back(std::move(chapter));
  make_room();
  return written;
}

std::uint64_t ChapterShelf::size_bytes() const {
  return closed_bytes_ + (summary_ == nullptr ? 0 : summary_->size_bytes());
}

std::uint64_t ChapterShelf::disk_bytes() const {
  const auto whole_blocks = [](std::uint64_t bytes) {
    return (bytes + kBlockBytes - 1) / kBlockBytes * kBlockBytes;
  };
  std::uint64_t bytes = summary_ == nullptr ? 0 : whole_blocks(summary_->size_bytes());
  for (const ChapterFigures& chapter : kept_) bytes += whole_blocks(chapter.size_bytes);
  return bytes;
}

Status ChapterShelf::write_summary(const std::string& lines) {
  if (Status written = summary_->write(std::as_bytes(std::span(lines))); !written) return written;
  return summary_->size_bytes() > most_summary_bytes_ ? shorten_summary() : Done{};
}

Status ChapterShelf::shorten_summary() {
  const std::string path = folder_ + "/" + std::string(kSummaryName);
  std::ifstream file(path, std::ios::binary);
  const std::string text{std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
  FolderSummary summary = read_summary(text);
  thin_out(summary.steps);
  std::string shorter(kSummaryTitle);
  std::size_t next = 0;
  for (const ChapterFigures& chapter : summary.chapters) {
    const std::size_t first = next;
    while (next < summary.steps.size() && summary.steps[next].first <= chapter.last_step) ++next;
    shorter += summary_lines(chapter, {summary.steps.begin() + static_cast<std::ptrdiff_t>(first),
                                       summary.steps.begin() + static_cast<std::ptrdiff_t>(next)});
  }
  // The old one stays until the new one is whole; its lock moves with the descriptor.
  const std::string beside = path + ".new";
  Result<std::unique_ptr<FileSink>> made = FileSink::create(beside, FileSink::Existing::replace);
  if (!made) return made.error();
  if (Status written = made.value()->write(std::as_bytes(std::span(shorter))); !written)
    return written;
  std::error_code problem;
  std::filesystem::rename(beside, path, problem);
  if (problem) return cannot_make(path, problem);
  summary_ = std::move(made).value();
  // If it is long because there were so many chapters, this does not help for long.
  most_summary_bytes_ = std::max(most_summary_bytes_, 2 * summary_->size_bytes());
  return Done{};
}

}  // namespace gpumemprof::capture
