#include "long/chapter_split.h"

#include <algorithm>

#include "store/store_source.h"

namespace gpumemprof::fuzz {
namespace {

class DevicePart {
 public:
  DevicePart(const DeviceRecord& record, std::size_t number, std::size_t count)
      : record_(record),
        is_first_(number == 0),
        is_last_(number + 1 == count),
        begin_(static_cast<std::uint32_t>(record.events.size() * number / count)),
        end_(static_cast<std::uint32_t>(record.events.size() * (number + 1) / count)) {}

  void deliver(const Store& run, SplitChapter& chapter) const {
    Store& part = chapter.part;
    if (is_first_) {
      for (std::size_t row = 0; row < record_.start_state.segments.size(); ++row)
        part.add_segment(StateEdge::start, record_.start_state.segments[row],
                         record_.start_state.blocks_of(row));
    } else {
      list_state(run.origin().device_type != "cpu" && run.facts().has_pool(), chapter);
      count_events(chapter.start);
    }
    EventColumns events;
    events.append(record_.events, begin_, end_ - begin_);
    if (!events.empty()) part.add_events(record_.device, std::move(events));
    for (LostEvents lost : record_.lost_events) {
      if (!take(lost.before_event)) continue;
      lost.end_event -= std::min(lost.end_event, begin_);
      part.add_lost_events(lost);
    }
    for (PhaseMark mark : record_.phase_marks) {
      if (take(mark.before_event)) part.add_phase_mark(mark);
    }
    for (Labelling labelling : record_.labellings) {
      if (!take(labelling.before_event)) continue;
      labelling.set = part.add_label_set(run.label_set(labelling.set));
      part.add_labelling(labelling);
    }
    for (DeviceSample sample : run.samples()) {
      if (sample.device == record_.device && take(sample.before_event)) part.add_sample(sample);
    }
  }

 private:
  // Whether a position is in this chapter; counts it from the chapter's first event.
  bool take(std::uint32_t& position) const {
    if ((position < begin_ && !is_first_) || (position >= end_ && !is_last_)) return false;
    if (position != kNoEvent) position -= begin_;
    return true;
  }

  void count_events(ChapterStart& start) const {
    ChapterDevice device;
    device.device = record_.device;
    for (std::uint32_t row = 0; row < begin_; ++row) device.made.add(record_.events.action[row]);
    device.rows = begin_;
    if (begin_ > 0) device.last_time_ns = record_.events.time_ns[begin_ - 1];
    start.devices.push_back(device);
  }

  void list_state(bool has_pool, SplitChapter& chapter) const {
    const Moment moment = begin_ == 0 ? Moment::start() : Moment::after(begin_ - 1);
    const AllocationColumns& all = record_.allocations;
    std::vector<std::uint32_t> live;
    for (std::uint32_t row = 0; row < all.size(); ++row) {
      if (all.is_active_at(row, moment)) live.push_back(row);
    }
    std::ranges::sort(live, {}, [&](std::uint32_t row) { return all.address[row]; });
    for (const std::uint32_t row : live) add_live(row, chapter.start);
    if (has_pool) return list_segments(live, moment, chapter.part);
    for (const std::uint32_t row : live) {
      SegmentState segment;
      segment.device = record_.device;
      segment.address = all.address[row];
      segment.size_bytes = all.size_bytes[row];
      segment.stream = all.stream[row];
      segment.stack = all.stack[row];
      const BlockState block = block_of(row, moment);
      chapter.part.add_segment(StateEdge::start, segment, {&block, 1});
    }
  }

  void add_live(std::uint32_t row, ChapterStart& start) const {
    const std::uint32_t birth = record_.allocations.alloc_event[row];
    LiveAllocation live;
    live.device = record_.device;
    live.address = record_.allocations.address[row];
    live.stream = record_.allocations.stream[row];
    if (birth != kNoEvent) live.time_ns = record_.events.time_ns[birth];
    start.live.push_back(live);
  }

  BlockState block_of(std::uint32_t row, Moment moment) const {
    const AllocationColumns& all = record_.allocations;
    return {all.address[row], all.size_bytes[row], all.requested_bytes[row],
            all.is_allocated_at(row, moment) ? BlockStateKind::active_allocated
                                             : BlockStateKind::active_pending_free,
            all.stack[row]};
  }

  void list_segments(const std::vector<std::uint32_t>& live, Moment moment, Store& part) const {
    const SegmentColumns& segments = record_.segments;
    for (std::uint32_t row = 0; row < segments.size(); ++row) {
      if (!segments.is_reserved_at(row, moment)) continue;
      SegmentState segment;
      segment.device = record_.device;
      segment.address = segments.address[row];
      segment.size_bytes = segments.size_bytes[row];
      segment.stream = segments.stream[row];
      segment.pool = segments.pool[row];
      segment.is_expandable = segments.is_expandable[row] != 0;
      segment.is_small = segments.is_small[row] != 0;
      segment.stack = segments.stack[row];
      part.add_segment(StateEdge::start, segment, blocks_in(segment, live, moment));
    }
  }

  std::vector<BlockState> blocks_in(const SegmentState& segment,
                                    const std::vector<std::uint32_t>& live, Moment moment) const {
    std::vector<BlockState> blocks;
    std::uint64_t at = segment.address;
    const std::uint64_t end = segment.address + segment.size_bytes;
    const auto leave_free = [&](std::uint64_t to) {
      if (to > at) blocks.push_back({at, to - at, 0, BlockStateKind::inactive, StackId()});
    };
    for (const std::uint32_t row : live) {
      const BlockState block = block_of(row, moment);
      if (block.address < at || block.address >= end) continue;
      leave_free(block.address);
      blocks.push_back(block);
      at = block.address + block.size_bytes;
    }
    leave_free(end);
    return blocks;
  }

  const DeviceRecord& record_;
  bool is_first_;
  bool is_last_;
  std::uint32_t begin_;
  std::uint32_t end_;
};

}  // namespace

void split_chapter(const Recording& run, std::size_t number, std::size_t count,
                   SplitChapter& chapter) {
  const Store& store = run.store();
  DefinitionCopy().deliver(store, chapter.part);
  Origin origin = store.origin();
  if (number > 0) origin.has_start = true;
  chapter.part.set_origin(origin);
  chapter.part.set_settings(store.settings());
  for (const ModuleLabel& module : store.modules()) chapter.part.add_module(module);
  chapter.start.number = static_cast<std::uint32_t>(number + 1);
  chapter.start.is_exact = true;
  for (const auto& record : store.devices())
    DevicePart(*record, number, count).deliver(store, chapter);
  if (number + 1 < count) return;
  for (const Annotation& annotation : store.annotations()) chapter.part.add_annotation(annotation);
}

}  // namespace gpumemprof::fuzz
