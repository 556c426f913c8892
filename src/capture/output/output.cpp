#include "capture/output/output.h"

#include <algorithm>
#include <filesystem>
#include <ranges>
#include <utility>

namespace gpumemprof::capture {
namespace {

// Events go to the writer in batches of this size, so that no more than one block is buffered
// twice.
constexpr std::size_t kBatchEvents = 16'384;
// Losses this close together count as one: an overloaded machine loses a few events in between many
// that are kept.
constexpr std::int64_t kLossJoinNs = 50'000'000;

}  // namespace

Output::Output(RecordingNumber number, std::unique_ptr<TraceWriter> writer,
               std::unique_ptr<Chapters> chapters, const StartOptions& options, Origin origin,
               std::shared_ptr<FirstAllocation> first_allocation)
    : number_(number),
      writer_(std::move(writer)),
      ids_(*writer_),
      chapters_(std::move(chapters)),
      path_(options.path),
      memory_(options.memory),
      has_stacks_(options.with_stacks),
      has_native_stacks_(options.native_stacks),
      origin_(std::move(origin)),
      first_allocation_(std::move(first_allocation)) {
  if (memory_ == MemoryKind::cuda) self_test_.emplace();
}

Output::Device& Output::device(DeviceSlot slot) {
  if (!devices_[slot]) devices_[slot] = std::make_unique<Device>();
  return *devices_[slot];
}

bool Output::is_recorded(DeviceSlot slot) const {
  if (memory_of(slot) != memory_) return false;
  return slot == kCpuSlot || (devices_[slot] && devices_[slot]->is_joined);
}

bool Output::admit(const DrainedEvent& event, const Device& mine) const {
  // The free of CPU memory allocated before this recording began is not recorded.
  return event.device == kCpuSlot ? number_ <= event.newest_recording : mine.is_joined;
}

void Output::count(const DrainedEvent& event, Device& mine) {
  if (event.is_inferred) {
    if (event.action == Action::free_requested && !has_failed())
      mine.inferred_rows.push_back(mine.rows);
    return;
  }
  mine.made.add(event.action);
}

void Output::take(const DrainedEvent& event, const StackMirror& mirror,
                  const std::vector<std::string>& tags) {
  if (memory_of(event.device) != memory_) return;
  if (has_native_stacks_ && !event.native_stack.is_none()) {
    DrainedEvent whole = event;
    whole.stack = std::exchange(whole.native_stack, StackId());
    return take(whole, mirror, tags);
  }
  Device& mine = device(event.device);
  if (!admit(event, mine)) return;
  count(event, mine);
  if (has_failed()) return;  // counted as made, and lost
  if (!early_marks_.empty()) [[unlikely]]
    write_early_marks();
  if (self_test_) self_test_->take(event.device, event.action, event.address, event.size_bytes);
  if (!has_allocated_ && event.action == Action::alloc) {
    has_allocated_ = true;
    first_allocation_->set_seen();
  }

  Event row;
  row.action = event.action;
  row.address = event.address;
  row.size_bytes = event.size_bytes;
  row.stream = ids_->stream(event.stream);
  row.time_ns = mine.last_time_ns = std::max(mine.last_time_ns, event.time_ns);
  if (has_stacks_) {
    row.stack = ids_->stack(event.stack, mirror);
    row.forward_stack = ids_->stack(event.forward_stack, mirror);
    row.module = ids_->module(event.module, mirror);
  }
  if (event.tag != 0) row.user_metadata = ids_->tag(event.tag, tags);
  if (memory_ == MemoryKind::cuda) row.pool = ids_->pool(event.pool);
  mine.events.push_back(row);
  ++mine.rows;
  const auto size = static_cast<std::int64_t>(event.size_bytes);
  if (event.action == Action::alloc) mine.add_requested(size);
  if (event.action == Action::free_completed) mine.requested_bytes -= size;
  if (mine.events.size() >= kBatchEvents) hand_over(event.device, mine);
  if (!chapters_) return;
  chapters_->take(event, row.time_ns);
  // The free of a CPU tensor is two events, and complete with the second.
  const bool is_half = event.device == kCpuSlot && event.action == Action::free_requested;
  if (!is_half && chapters_->is_full(writer_->size_bytes(), row.time_ns)) turn_page(mirror, tags);
}

void Output::take(const Annotation& annotation, std::string_view name) {
  Annotation mine = annotation;
  mine.name = writer_->add_string(name);
  writer_->add_annotation(mine);
}

void Output::take(const DeviceSample& sample) {
  const std::optional<DeviceSlot> slot = cuda_slot(sample.device);
  if (memory_ != MemoryKind::cuda || !slot) return;
  DeviceSample mine = sample;
  if (is_recorded(*slot)) mine.before_event = static_cast<std::uint32_t>(device(*slot).rows);
  writer_->add_sample(mine);
}

void Output::note_lost(const LossRun& lost) {
  if (!is_recorded(lost.device) || lost.epoch < epoch_) return;
  Device& mine = device(lost.device);
  EventCounts counts = lost.counts;
  // A callback sees the free of a CPU tensor once; as an event it is requested, and completed.
  if (lost.device == kCpuSlot) counts.others = counts.frees;
  mine.made += counts;
  if (self_test_) self_test_->mark_incomplete();
  if (chapters_) chapters_->note_loss();
  if (mine.open_loss && lost.first_time_ns - mine.open_loss->last_time_ns > kLossJoinNs)
    write_lost_events(mine);
  const auto row = static_cast<std::uint32_t>(mine.rows);
  if (!mine.open_loss) {
    mine.open_loss = LostEvents();
    mine.open_loss->device = index_in_file(lost.device);
    mine.open_loss->before_event = row;
    mine.open_loss->first_time_ns = lost.first_time_ns;
    mine.open_loss->last_time_ns = lost.last_time_ns;
  }
  LostEvents& loss = *mine.open_loss;
  loss.end_event = row;
  loss.first_time_ns = std::min(loss.first_time_ns, lost.first_time_ns);
  loss.last_time_ns = std::max(loss.last_time_ns, lost.last_time_ns);
  loss.count += counts.total();
  loss.allocations += counts.allocations;
  loss.frees += counts.frees;
}

void Output::write_lost_events(Device& mine) {
  if (mine.open_loss) writer_->add_lost_events(*mine.open_loss);
  mine.open_loss.reset();
}

void Output::note_pause() {
  was_paused_ = true;
  if (chapters_) chapters_->note_loss();
  if (self_test_) self_test_->mark_incomplete();
  for_each_device([&](DeviceSlot slot, Device& mine) {
    if (!is_recorded(slot)) return;
    write_lost_events(mine);
    LostEvents loss;
    loss.device = index_in_file(slot);
    loss.before_event = loss.end_event = static_cast<std::uint32_t>(mine.rows);
    loss.count = LostEvents::kUnknownCount;
    loss.first_time_ns = loss.last_time_ns = mine.last_time_ns;
    writer_->add_lost_events(loss);
  });
}

void Output::begin_join() {
  // Nothing of a failed join may stay: the state it began with is not known.
  if (self_test_) self_test_.emplace();
  if (chapters_) chapters_->begin_join();
  for (const auto& mine : devices_) {
    if (!mine) continue;
    mine->is_joined = false;
    if (mine->rows == mine->events.size()) *mine = Device();  // the writer has none of it yet
  }
}

void Output::join(DeviceSlot slot) {
  if (!is_cuda_slot(slot)) return;
  device(slot).is_joined = true;
  if (chapters_) chapters_->begin(slot);
}

void Output::freeze_self_test(DeviceSlot slot) {
  if (self_test_ && is_cuda_slot(slot)) self_test_->freeze(slot);
}

SelfTestResult Output::finish_self_test(const std::vector<ListedSegment>& segments) {
  if (!self_test_) return {};
  SelfTestResult result;
  result.is_done = !self_test_->is_incomplete();
  if (result.is_done) result.contradiction = self_test_->contradiction(segments);
  return result;
}

void Output::end_self_test(bool has_passed) {
  self_test_.reset();
  if (!has_passed) begin_join();
}

void Output::add_start(const std::vector<ListedSegment>& segments) {
  if (self_test_) self_test_->begin(segments);
  if (chapters_) chapters_->add_start(segments);
  std::vector<BlockState> blocks;
  for (const ListedSegment& listed : segments) {
    SegmentState segment;
    segment.device = listed.device;
    segment.address = listed.address;
    segment.size_bytes = listed.size_bytes;
    segment.stream = ids_->stream(listed.stream);
    segment.pool = ids_->pool(listed.pool);
    segment.is_small = listed.is_small;
    segment.is_expandable = listed.is_expandable;
    blocks.clear();
    std::int64_t requested_bytes = 0;
    for (const ListedBlock& block : listed.blocks) {
      blocks.push_back(
          {block.address, block.size_bytes, block.requested_bytes, block.state, StackId()});
      if (block.state != BlockStateKind::inactive)
        requested_bytes += static_cast<std::int64_t>(block.requested_bytes);
    }
    if (const std::optional<DeviceSlot> slot = cuda_slot(listed.device))
      device(*slot).add_requested(requested_bytes);
    writer_->add_segment(StateEdge::start, segment, blocks);
  }
}

void Output::add_facts(const Facts& facts) {
  for (const auto& fact : facts) {
    const auto same = [&](const auto& other) { return other.first == fact.first; };
    std::erase_if(origin_.facts, same);
    origin_.facts.push_back(fact);
  }
  writer_->set_origin(origin_);
}

void Output::hand_over(DeviceSlot slot, Device& mine) {
  if (mine.events.empty()) return;
  writer_->append_events(index_in_file(slot), mine.events);
  mine.events.clear();
}

void Output::keep_problem(const Status& status) {
  if (!status && !problem_) problem_ = status.error();
}

void Output::give_up(std::string_view reason) {
  are_counts_exact_ = false;  // events in progress may not have been counted yet
  keep_problem(Error{ErrorCode::bug, "the recorder stopped: " + std::string(reason), path_,
                     "please report it"});
}

void Output::flush() {
  for_each_device([&](DeviceSlot slot, Device& mine) {
    write_lost_events(mine);
    hand_over(slot, mine);
  });
  keep_problem(writer_->flush());
  note_name();
}

void Output::note_name() {
  if (!chapters_) {
    path_ = writer_->path();
    return;
  }
  std::string folder = std::filesystem::path(writer_->path()).parent_path().string();
  if (folder == chapters_->shelf().folder()) return;
  path_ = folder;
  chapters_->shelf().set_folder(std::move(folder));
}

DeviceCounts Output::counts_of(DeviceSlot slot, const Device& mine) const {
  DeviceCounts counts;
  counts.device = index_in_file(slot);
  counts.made = mine.made;
  const EventCounts written = writer_->written(counts.device);
  const std::uint64_t rows = written.total();
  counts.inferred_frees = static_cast<std::uint64_t>(
      std::ranges::lower_bound(mine.inferred_rows, rows) - mine.inferred_rows.begin());
  counts.lost.allocations = mine.made.allocations - written.allocations;
  counts.lost.frees = mine.made.frees + counts.inferred_frees - written.frees;
  counts.lost.others = mine.made.others - written.others;
  // The free of a CPU tensor that nobody saw was not seen to complete either.
  if (slot == kCpuSlot) counts.lost.others += counts.inferred_frees;
  return counts;
}

Ending Output::ending(std::string_view reason, std::uint64_t undecided) const {
  Ending ending;
  ending.is_closed = true;
  ending.reason = reason;
  if (problem_) ending.problem = problem_->message;
  ending.has_counts = !was_paused_;
  ending.are_counts_exact = are_counts_exact_ && undecided == undecided_before_;
  for_each_device([&](DeviceSlot slot, const Device& mine) {
    if (mine.made.total() > 0) ending.devices.push_back(counts_of(slot, mine));
  });
  return ending;
}

Summary Output::close(std::string_view reason, std::uint64_t undecided) {
  flush();
  const Ending ended = ending(reason, undecided);
  keep_problem(writer_->close(ended));
  Summary summary;
  summary.path = path_;
  summary.events = earlier_events_ + writer_->event_count();
  summary.size_bytes = writer_->size_bytes();
  if (chapters_ && writer_->size_bytes() > 0) {
    keep_problem(chapters_->end(writer_->size_bytes()));
    summary.size_bytes = chapters_->shelf().size_bytes();
  }
  for (const DeviceCounts& counts : ended.devices) {
    summary.made += counts.made;
    summary.lost += counts.lost;
  }
  summary.has_counts = ended.has_counts && ended.are_counts_exact;
  for_each_device([&](DeviceSlot slot, const Device& mine) {
    summary.made += mine.earlier_made;
    summary.lost += mine.earlier_lost;
    if (mine.rows + mine.earlier_rows == 0) return;
    summary.devices.push_back(
        {index_in_file(slot), mine.rows + mine.earlier_rows,
         static_cast<std::uint64_t>(std::max<std::int64_t>(mine.requested_bytes, 0)),
         static_cast<std::uint64_t>(mine.peak_requested_bytes)});
  });
  summary.lost_events = summary.lost.total();
  if (problem_) summary.problem = problem_->sentence();
  return summary;
}

}  // namespace gpumemprof::capture
