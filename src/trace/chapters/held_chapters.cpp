#include "trace/chapters/held_chapters.h"

#include <filesystem>
#include <system_error>

namespace gpumemprof {
namespace {

// Far fewer than a process may open. While so many are removed, many more have been read.
constexpr std::size_t kMostHeld = 200;

}  // namespace

Result<std::unique_ptr<HeldChapters>> HeldChapters::open(const std::string& folder, Hold hold) {
  Result<std::vector<ChapterFile>> files = list_chapters(folder);
  if (!files) return files.error();
  auto chapters = std::make_unique<HeldChapters>();
  chapters->folder_ = folder;
  chapters->files_ = std::move(files).value();
  chapters->states_.resize(chapters->files_.size(), State::unread);
  for (const ChapterFile& file : chapters->files_) {
    chapters->total_bytes_ += file.size_bytes;
    if (hold == Hold::none || chapters->held_.size() == kMostHeld) continue;
    Result<std::unique_ptr<FileSource>> source = FileSource::open(file.path);
    chapters->held_.push_back(source ? std::move(source).value() : nullptr);
  }
  return chapters;
}

std::unique_ptr<HeldChapters> HeldChapters::again() const {
  auto chapters = std::make_unique<HeldChapters>();
  chapters->folder_ = folder_;
  chapters->files_ = files_;
  chapters->states_ = states_;
  chapters->total_bytes_ = total_bytes_;
  return chapters;
}

Result<FileSource*> HeldChapters::read(std::size_t index) {
  const ChapterFile& file = files_[index];
  State& state = states_[index];
  if (state == State::gone) return static_cast<FileSource*>(nullptr);
  FileSource* source = index < held_.size() ? held_[index].get() : nullptr;
  if (source == nullptr) {
    Result<std::unique_ptr<FileSource>> opened = FileSource::open(file.path);
    std::error_code ignored;
    const bool is_there = std::filesystem::exists(file.path, ignored);
    // It may not be read.
    if (!opened && is_there && state == State::unread) return opened.error();
    open_ = opened ? std::move(opened).value() : nullptr;
    source = open_.get();
  }
  if (source == nullptr && state == State::read)
    return Error{ErrorCode::environment, "a chapter was removed while the folder was read",
                 file.path, "ask again: the recorder removes old chapters as it goes"};
  state = source == nullptr ? State::gone : State::read;
  if (source == nullptr) return source;
  source->move_to(0);
  source->set_end(file.size_bytes);
  return source;
}

}  // namespace gpumemprof
