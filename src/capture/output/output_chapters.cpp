#include "capture/output/output.h"

namespace gpumemprof::capture {

std::vector<ChapterDevice> Output::until_now() {
  std::vector<ChapterDevice> devices;
  for_each_device([&](DeviceSlot slot, const Device& mine) {
    if (mine.earlier_rows == 0 && mine.earlier_made.total() == 0) return;
    devices.push_back(
        {index_in_file(slot), mine.earlier_made, mine.earlier_rows, mine.last_time_ns});
  });
  return devices;
}

// The next file is there before this one is closed: if it cannot be made, this one says so.
void Output::turn_page(const StackMirror& mirror, const std::vector<std::string>& tags) {
  flush();
  if (has_failed()) return;
  Result<std::unique_ptr<TraceWriter>> next = TraceWriter::open(
      chapters_->shelf().path_of(chapters_->number() + 1), origin_, chapters_->settings());
  if (!next) return keep_problem(next.error());
  const Ending ended = ending(kContinued, undecided_before_);
  keep_problem(writer_->close(ended));
  const std::uint64_t size_bytes = writer_->size_bytes();
  earlier_events_ += writer_->event_count();
  for_each_device([&](DeviceSlot slot, Device& mine) {
    const DeviceCounts counts = counts_of(slot, mine);
    mine.earlier_rows += mine.rows;
    mine.earlier_made += mine.made;
    mine.earlier_lost += counts.lost;
    mine.rows = 0;
    mine.made = EventCounts();
    mine.inferred_rows.clear();
  });
  keep_problem(chapters_->end(size_bytes));
  writer_ = std::move(next).value();
  ids_.emplace(*writer_);
  label_sets_.clear();
  chapters_->begin_next(*writer_, *ids_, mirror, tags, until_now());
  keep_problem(writer_->flush());
  chapters_->note_started(writer_->size_bytes());
}

}  // namespace gpumemprof::capture
