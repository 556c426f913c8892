#include "trace/chapters/chapter_walk.h"

#include <algorithm>

#include "trace/chapters/chapter_identity.h"
#include "trace/delivery.h"
#include "trace/reader.h"

namespace gpumemprof {

// All chapters together may take what one file of their size may.
std::uint64_t ChapterWalk::limit_of(const ChapterFile& file) const {
  const std::uint64_t total_bytes = std::max<std::uint64_t>(chapters_.total_bytes(), 1);
  const double share = static_cast<double>(file.size_bytes) / static_cast<double>(total_bytes);
  const auto limit_bytes = static_cast<std::uint64_t>(
      static_cast<double>(memory_limit_bytes(chapters_.total_bytes())) * share);
  return std::max(limit_bytes, least_limit_bytes_);
}

Status ChapterWalk::run(std::uint32_t first_chapter, Visitor& visitor) {
  std::optional<Error> refusal;  // of a file that is no recording
  bool has_any = false;
  for (std::size_t index = 0; index < chapters_.files().size(); ++index) {
    const ChapterFile& file = chapters_.files()[index];
    done_bytes_ += index == 0 ? 0 : chapters_.files()[index - 1].size_bytes;
    if (file.number < first_chapter) continue;
    const Result<FileSource*> source = chapters_.read(index);
    if (!source && source.error().code != ErrorCode::bad_input) return source.error();
    if (source && source.value() == nullptr) continue;  // the recorder has removed it
    const Status read =
        source ? trace::read_file_header(*source.value(), file.path) : Status(source.error());
    if (!read) {
      // One that was created the moment the process was killed has no header yet.
      const bool is_last = index + 1 == chapters_.files().size();
      if (is_last && file.size_bytes < trace::kFileHeaderBytes) continue;
      leave_out(file, read.error().message);
      if (!refusal) refusal = read.error();
      continue;
    }
    if (const std::string why = why_misplaced(file, *source.value()); !why.empty()) {
      leave_out(file, why);
      continue;
    }
    has_any = true;
    if (deliver(file, *source.value(), visitor) == Outcome::ended) return Done{};
  }
  if (!has_any && refusal) return *refusal;
  if (!has_any)
    return Error{ErrorCode::bad_input, "the recording is empty", chapters_.folder(),
                 "record again"};
  return Done{};
}

// Why the file does not belong where its name puts it; empty if it does.
std::string ChapterWalk::why_misplaced(const ChapterFile& file, FileSource& source) {
  const ChapterIdentity identity = identify_chapter(source);
  source.move_to(trace::kFileHeaderBytes);
  if (!identity.process.empty() && process_.empty()) process_ = identity.process;
  if (!identity.process.empty() && identity.process != process_)
    return "it belongs to another recording, of process " + identity.process;
  if (identity.number != 0 && identity.number != file.number)
    return "it is " + chapter_name(identity.number) + " under another name";
  return {};
}

void ChapterWalk::leave_out(const ChapterFile& file, const std::string& why) {
  left_out_.insert(file.number);
  note_cut(file, 0, why);
}

// The first one is named, the others are counted.
void ChapterWalk::note_cut(const ChapterFile& file, std::uint64_t byte_offset,
                           const std::string& why) {
  if (++cuts_ > 1) return;
  const std::string where = byte_offset == 0 ? "" : ", byte " + std::to_string(byte_offset);
  cut_ = CutPoint{byte_offset, chapter_name(file.number) + where + ": " + why};
}

std::optional<CutPoint> ChapterWalk::cut() const {
  std::optional<CutPoint> found = cut_;
  if (found && cuts_ > 1)
    found->reason += "; " + std::to_string(cuts_ - 1) +
                     (cuts_ == 2 ? " other chapter is" : " other chapters are") + " damaged too";
  return found;
}

ChapterWalk::Outcome ChapterWalk::deliver(const ChapterFile& file, FileSource& source,
                                          Visitor& visitor) {
  join_.begin(file.number);
  if (!visitor.begin(file.number)) return Outcome::ended;
  trace::Delivery delivery(source, join_, limit_of(file));
  delivery.set_most_events(trace::Delivery::kMostEvents -
                           std::min(join_.most_rows(), trace::Delivery::kMostEvents));
  for (;;) {
    can_begin_here_ = join_.is_resolved();
    const RecordingPlace place{file.number, join_.known_from(), delivery.place()};
    if (!visitor.reach(place, done_bytes_ + delivery.byte_offset())) return Outcome::ended;
    if (delivery.step() != trace::Delivery::Outcome::more) break;
  }
  delivery.finish();
  join_.end(delivery.ending(), delivery.cut().has_value());
  if (delivery.cut()) note_cut(file, delivery.cut()->byte_offset, delivery.cut()->reason);
  return Outcome::more;
}

}  // namespace gpumemprof
