#include "trace/follower.h"

#include <algorithm>

#include "trace/chapters/chapter_folder.h"
#include "trace/reader.h"

namespace gpumemprof {
namespace {

// For what a recording defines (strings, stacks, labels): a forged one must not exhaust the
// machine.
constexpr std::uint64_t kMostBytes = std::uint64_t{1} << 30;
// A recorded event takes half a byte or more.
constexpr std::uint64_t kMaxEventsPerByte = 2;

}  // namespace

Result<std::unique_ptr<TraceFollower>> TraceFollower::open(const std::string& path, EventSink& sink,
                                                           std::uint64_t allowed_bytes) {
  std::unique_ptr<TraceFollower> follower(new TraceFollower(path, sink, allowed_bytes));
  if (!is_folder(path)) {
    if (Status opened = follower->open_file(path, sink); !opened) return opened.error();
    return follower;
  }
  follower->join_ = std::make_unique<ChapterJoin>(sink);
  const Result<bool> opened = follower->open_next_chapter();
  if (!opened) return opened.error();
  return follower;
}

Status TraceFollower::open_file(const std::string& path, EventSink& sink) {
  Result<std::unique_ptr<FileSource>> file = FileSource::open(path);
  if (!file) return file.error();
  if (Status read = trace::read_file_header(*file.value(), path); !read) return read;
  file_ = std::move(file).value();
  delivery_ = std::make_unique<trace::Delivery>(*file_, sink, allowed_bytes_);
  delivery_->set_definitions_limit_bytes(std::max(kMostBytes, allowed_bytes_));
  return Done{};
}

Result<bool> TraceFollower::open_next_chapter() {
  const Result<std::vector<ChapterFile>> files = list_chapters(path_);
  if (!files) return files.error();
  for (const ChapterFile& file : files.value()) {
    if (file.number <= number_) continue;
    // The recorder may have created it this moment, or removed it.
    if (file.size_bytes < trace::kFileHeaderBytes) return false;
    if (Status opened = open_file(file.path, *join_); !opened) {
      if (!FileSource::open(file.path)) continue;
      return opened.error();
    }
    number_ = file.number;
    join_->begin(number_);
    return true;
  }
  return false;
}

Result<TraceFollower::State> TraceFollower::read_more(std::uint64_t most_bytes) {
  const std::uint64_t first = bytes_read();
  for (;;) {
    if (delivery_ == nullptr) {
      const Result<bool> opened = open_next_chapter();
      if (!opened) return opened.error();
      if (!opened.value()) return State::waiting;
    }
    const std::uint64_t done = std::min(bytes_read() - first, most_bytes);
    const Result<State> state = read_file(most_bytes - done);
    if (!state || state.value() != State::ended) return state;
    if (join_ == nullptr || delivery_->ending()->reason != kContinued) {
      ending_ = delivery_->ending();
      return State::ended;
    }
    join_->end(delivery_->ending(), false);
    closed_bytes_ += delivery_->byte_offset();
    delivery_.reset();
    file_.reset();
  }
}

Result<TraceFollower::State> TraceFollower::read_file(std::uint64_t most_bytes) {
  const auto refuse = [&](std::string message, std::string hint) {
    const std::uint64_t byte_offset =
        delivery_->cut() ? delivery_->cut()->byte_offset : delivery_->byte_offset();
    return Error{ErrorCode::bad_input, std::move(message),
                 path_ + ", byte " + std::to_string(byte_offset), std::move(hint)};
  };
  if (file_->current_size_bytes() < delivery_->byte_offset())
    return refuse("the recording became shorter while it was followed", "follow it again");
  delivery_->set_limit_bytes(
      std::max(memory_limit_bytes(file_->current_size_bytes()), allowed_bytes_));
  const std::uint64_t first = delivery_->byte_offset();
  const std::uint64_t first_event = delivery_->event_count();
  while (delivery_->byte_offset() - first < most_bytes &&
         (delivery_->event_count() - first_event) / kMaxEventsPerByte < most_bytes) {
    switch (delivery_->step()) {
      case trace::Delivery::Outcome::more:
        continue;
      case trace::Delivery::Outcome::ended:
        return State::ended;
      case trace::Delivery::Outcome::damaged:
        return refuse(delivery_->cut()->reason, "what came before it was read");
      case trace::Delivery::Outcome::unfinished:
      case trace::Delivery::Outcome::end_of_file:
        break;
    }
    delivery_->resume();
    file_->move_to(delivery_->byte_offset());
    if (!file_->is_at_its_path())
      return refuse("the recording was removed or replaced while it was followed",
                    "follow the new one");
    return State::waiting;
  }
  return State::behind;
}

}  // namespace gpumemprof
