#include "capture/stream/output.h"

#include <algorithm>
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

void FirstAllocation::come() {
  const std::lock_guard lock(mutex_);
  is_there_ = true;
  wakes_.notify_all();
}

void FirstAllocation::end() {
  const std::lock_guard lock(mutex_);
  is_over_ = true;
  wakes_.notify_all();
}

bool FirstAllocation::wait(std::chrono::milliseconds most) {
  std::unique_lock lock(mutex_);
  wakes_.wait_for(lock, most, [&] { return is_there_ || is_over_; });
  return is_there_ && !is_over_;
}

Output::Output(RecordingNumber number, std::unique_ptr<TraceWriter> writer,
               const StartOptions& options, Origin origin,
               std::shared_ptr<FirstAllocation> first_allocation)
    : number_(number),
      writer_(std::move(writer)),
      path_(options.path),
      memory_(options.memory),
      has_stacks_(options.with_stacks),
      origin_(std::move(origin)),
      first_allocation_(std::move(first_allocation)) {
  if (memory_ == MemoryKind::cuda) self_test_.emplace();
}

Output::Device& Output::device(std::uint8_t number) {
  if (!devices_[number]) devices_[number] = std::make_unique<Device>();
  return *devices_[number];
}

DeviceIndex Output::index_of(std::uint8_t device) const {
  return device == kCpuDevice ? DeviceIndex{0} : static_cast<DeviceIndex>(device);
}

bool Output::admit(const DrainedEvent& event, Device& mine) {
  if (event.device != kCpuDevice) return mine.is_joined;
  // The free of memory allocated before this recording began is not recorded.
  if (event.action == Action::alloc) {
    live_.insert_or_assign(event.address, 1);
    return true;
  }
  if (live_.find(event.address) == nullptr) return false;
  if (event.action == Action::free_completed) live_.erase(event.address);
  return true;
}

void Output::count(const DrainedEvent& event, Device& mine) {
  if (event.is_inferred) {
    if (event.action == Action::free_requested && !has_failed())
      mine.inferred_rows.push_back(mine.rows);
    return;
  }
  // A CPU tensor's free is complete at once; its second row is not something the program did.
  if (event.device != kCpuDevice || event.action != Action::free_completed)
    mine.made.add(event.action);
}

void Output::take(const DrainedEvent& event, const StackMirror& mirror,
                  const std::vector<std::string>& tags) {
  const bool is_cpu = event.device == kCpuDevice;
  if (is_cpu != (memory_ == MemoryKind::cpu)) return;
  Device& mine = device(event.device);
  if (!admit(event, mine)) return;
  count(event, mine);
  if (has_failed()) return;  // counted as made, and lost
  if (self_test_) self_test_->take(event.device, event.action, event.address, event.size_bytes);
  if (!has_allocated_ && event.action == Action::alloc) {
    has_allocated_ = true;
    first_allocation_->come();
  }

  Event row;
  row.action = event.action;
  row.address = event.address;
  row.size_bytes = event.size_bytes;
  row.stream = stream_of(event.stream);
  row.time_ns = mine.last_time_ns = std::max(mine.last_time_ns, event.time_ns);
  if (has_stacks_) {
    row.stack = stack_of(event.stack, mirror);
    row.forward_stack = stack_of(event.forward_stack, mirror);
    row.module = module_of(event.module, mirror);
  }
  if (event.tag != 0) row.user_metadata = tag_of(event.tag, tags);
  if (!is_cpu) row.pool = pool_of(event.pool);
  mine.events.push_back(row);
  ++mine.rows;
  const auto size = static_cast<std::int64_t>(event.size_bytes);
  if (event.action == Action::alloc) {
    mine.requested_bytes += size;
    mine.peak_requested_bytes = std::max(mine.peak_requested_bytes, mine.requested_bytes);
  } else if (event.action == Action::free_completed) {
    mine.requested_bytes -= size;
  }
  if (mine.events.size() >= kBatchEvents) hand_over(event.device, mine);
}

void Output::take(const Annotation& annotation, std::string_view name) {
  Annotation mine = annotation;
  mine.name = writer_->add_string(name);
  writer_->add_annotation(mine);
}

void Output::take(const DeviceSample& sample) {
  if (memory_ != MemoryKind::cuda || sample.device < 0 || sample.device >= kCpuDevice) return;
  const auto number = static_cast<std::uint8_t>(sample.device);
  DeviceSample mine = sample;
  if (is_recorded(number)) mine.before_event = static_cast<std::uint32_t>(device(number).rows);
  writer_->add_sample(mine);
}

void Output::note_lost(const Lost& lost) {
  const bool is_cpu = lost.device == kCpuDevice;
  if (is_cpu != (memory_ == MemoryKind::cpu) || lost.epoch < epoch_) return;
  if (!is_cpu && !is_recorded(lost.device)) return;
  Device& mine = device(lost.device);
  mine.made += lost.counts;
  if (self_test_) self_test_->mark_incomplete();
  if (mine.open_loss && lost.first_time_ns - mine.open_loss->last_time_ns > kLossJoinNs)
    write_lost_events(mine);
  const auto row = static_cast<std::uint32_t>(mine.rows);
  if (!mine.open_loss) {
    mine.open_loss = LostEvents();
    mine.open_loss->device = index_of(lost.device);
    mine.open_loss->before_event = row;
    mine.open_loss->first_time_ns = lost.first_time_ns;
    mine.open_loss->last_time_ns = lost.last_time_ns;
  }
  LostEvents& loss = *mine.open_loss;
  loss.end_event = row;
  loss.first_time_ns = std::min(loss.first_time_ns, lost.first_time_ns);
  loss.last_time_ns = std::max(loss.last_time_ns, lost.last_time_ns);
  loss.count += lost.counts.total();
  loss.allocations += lost.counts.allocations;
  loss.frees += lost.counts.frees;
}

void Output::write_lost_events(Device& mine) {
  if (mine.open_loss) writer_->add_lost_events(*mine.open_loss);
  mine.open_loss.reset();
}

void Output::note_pause() {
  was_paused_ = true;
  if (self_test_) self_test_->mark_incomplete();
  for (std::size_t number = 0; number < devices_.size(); ++number) {
    if (!devices_[number] || !is_recorded(static_cast<std::uint8_t>(number))) continue;
    Device& mine = *devices_[number];
    write_lost_events(mine);
    LostEvents loss;
    loss.device = index_of(static_cast<std::uint8_t>(number));
    loss.before_event = loss.end_event = static_cast<std::uint32_t>(mine.rows);
    loss.count = LostEvents::kUnknownCount;
    loss.first_time_ns = loss.last_time_ns = mine.last_time_ns;
    writer_->add_lost_events(loss);
  }
}

void Output::begin_join() {
  // Nothing of a failed join may stay: the state it began with is not known.
  if (self_test_) self_test_.emplace();
  for (const auto& mine : devices_) {
    if (!mine) continue;
    mine->is_joined = false;
    if (mine->rows == mine->events.size()) *mine = Device();  // the writer has none of it yet
  }
}

void Output::join(std::uint8_t number) {
  if (number < kCpuDevice) device(number).is_joined = true;
}

void Output::freeze_self_test(std::uint8_t device) {
  if (self_test_ && device < kCpuDevice) self_test_->freeze(device);
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
  std::vector<BlockState> blocks;
  for (const ListedSegment& listed : segments) {
    SegmentState segment;
    segment.device = listed.device;
    segment.address = listed.address;
    segment.size_bytes = listed.size_bytes;
    segment.stream = stream_of(listed.stream);
    segment.pool = pool_of(listed.pool);
    segment.is_small = listed.is_small;
    segment.is_expandable = listed.is_expandable;
    blocks.clear();
    for (const ListedBlock& block : listed.blocks) {
      blocks.push_back(
          {block.address, block.size_bytes, block.requested_bytes, block.state, StackId()});
      Device& mine = device(static_cast<std::uint8_t>(listed.device));
      if (block.state != BlockStateKind::inactive) {
        mine.requested_bytes += static_cast<std::int64_t>(block.requested_bytes);
        mine.peak_requested_bytes = std::max(mine.peak_requested_bytes, mine.requested_bytes);
      }
    }
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

void Output::hand_over(std::uint8_t number, Device& mine) {
  if (mine.events.empty()) return;
  writer_->append_events(index_of(number), mine.events);
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
  for (std::size_t number = 0; number < devices_.size(); ++number) {
    if (!devices_[number]) continue;
    write_lost_events(*devices_[number]);
    hand_over(static_cast<std::uint8_t>(number), *devices_[number]);
  }
  keep_problem(writer_->flush());
}

DeviceCounts Output::counts_of(std::uint8_t number, const Device& mine) const {
  DeviceCounts counts;
  counts.device = index_of(number);
  counts.made = mine.made;
  const EventCounts written = writer_->written(counts.device);
  const std::uint64_t rows = written.total();
  counts.inferred_frees = static_cast<std::uint64_t>(
      std::ranges::lower_bound(mine.inferred_rows, rows) - mine.inferred_rows.begin());
  counts.lost.allocations = mine.made.allocations - written.allocations;
  counts.lost.frees = mine.made.frees + counts.inferred_frees - written.frees;
  if (number != kCpuDevice) counts.lost.others = mine.made.others - written.others;
  return counts;
}

Ending Output::ending(std::string_view reason, std::uint64_t undecided) const {
  Ending ending;
  ending.is_closed = true;
  ending.reason = reason;
  if (problem_) ending.problem = problem_->message;
  ending.has_counts = !was_paused_;
  ending.are_counts_exact = are_counts_exact_ && undecided == undecided_before_;
  for (std::size_t number = 0; number < devices_.size(); ++number) {
    if (devices_[number] && devices_[number]->made.total() > 0)
      ending.devices.push_back(counts_of(static_cast<std::uint8_t>(number), *devices_[number]));
  }
  return ending;
}

Summary Output::close(std::string_view reason, std::uint64_t undecided) {
  flush();
  const Ending ended = ending(reason, undecided);
  keep_problem(writer_->close(ended));
  Summary summary;
  summary.path = path_;
  summary.events = writer_->event_count();
  for (const DeviceCounts& counts : ended.devices) {
    summary.made += counts.made;
    summary.lost += counts.lost;
  }
  summary.has_counts = ended.has_counts && ended.are_counts_exact;
  summary.lost_events = summary.lost.total();
  summary.size_bytes = writer_->size_bytes();
  for (std::size_t number = 0; number < devices_.size(); ++number) {
    if (!devices_[number] || devices_[number]->rows == 0) continue;
    const Device& mine = *devices_[number];
    summary.devices.push_back(
        {index_of(static_cast<std::uint8_t>(number)), mine.rows,
         static_cast<std::uint64_t>(std::max<std::int64_t>(mine.requested_bytes, 0)),
         static_cast<std::uint64_t>(mine.peak_requested_bytes)});
  }
  if (problem_) summary.problem = problem_->sentence();
  return summary;
}

bool Output::only_starts_the_program(const Frame& frame, const StackMirror& mirror) {
  const std::string_view file = mirror.text(frame.file);
  constexpr std::string_view kFiles[] = {
      "/gpumemprof/__main__.py",
      "/gpumemprof/recorder/run.py",
      "/gpumemprof/verify/apply/__main__.py",
      "/bin/gpumemprof",
      "/runpy.py",
      "<frozen runpy>",
  };
  return std::ranges::any_of(kFiles, [&](std::string_view end) { return file.ends_with(end); });
}

StackId Output::stack_of(StackId id, const StackMirror& mirror) {
  if (id.is_none()) return id;
  if (stacks_.size() <= id.index) stacks_.resize(mirror.stack_count());
  StackId& mine = stacks_[id.index];
  if (!mine.is_none()) return mine;
  // Callers first: a stack is added from its outermost frame on.
  std::vector<StackId> missing;
  StackId caller = id;
  while (!caller.is_none() && stacks_[caller.index].is_none()) {
    missing.push_back(caller);
    caller = mirror.caller(caller);
  }
  StackId added = caller.is_none() ? StackId() : stacks_[caller.index];
  for (const StackId step : std::views::reverse(missing)) {
    const Frame& frame = mirror.frame(mirror.innermost(step));
    if (added.is_none() && only_starts_the_program(frame, mirror)) continue;
    const FrameId frame_id = writer_->add_frame(
        {string_of(frame.name, mirror), string_of(frame.file, mirror), frame.line});
    added = stacks_[step.index] = writer_->add_stack(added, frame_id);
  }
  return added;
}

StringId Output::string_of(StringId id, const StackMirror& mirror) {
  if (strings_.size() <= id.index) strings_.resize(id.index + std::size_t{1});
  StringId& mine = strings_[id.index];
  if (mine.is_none()) mine = writer_->add_string(mirror.text(id));
  return mine;
}

StringId Output::tag_of(std::uint16_t tag, const std::vector<std::string>& tags) {
  if (tag >= tags.size()) return StringId();
  if (tags_.size() < tags.size()) tags_.resize(tags.size());
  if (tags_[tag].is_none()) tags_[tag] = writer_->add_string(tags[tag]);
  return tags_[tag];
}

std::uint32_t Output::stream_of(std::uint64_t handle) {
  std::uint32_t& mine = streams_.find_or_insert(handle, kNoEvent);
  if (mine == kNoEvent) mine = writer_->add_stream(handle);
  return mine;
}

std::uint32_t Output::pool_of(PoolId pool) {
  std::uint32_t& mine = pools_.find_or_insert((pool.graph << 32) ^ pool.user, kNoPool);
  if (mine == kNoPool) mine = writer_->add_pool(pool);
  return mine;
}

}  // namespace gpumemprof::capture
