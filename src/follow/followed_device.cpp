#include "follow/followed_device.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "analysis/sources/measured.h"
#include "replay/history_start.h"

namespace gpumemprof {
namespace {

// Of one flush; a recorder that is so busy that one holds more gets steps that begin a little late.
constexpr std::size_t kMaxChanges = std::size_t{1} << 20;

// What the code that allocates says, before anything is known about the lifetime.
MemorySource source_of(CodeKind kind) {
  switch (kind) {
    case CodeKind::make_parameters:
      return MemorySource::parameters;
    case CodeKind::make_buckets:
      return MemorySource::communication;
    case CodeKind::workspace:
      return MemorySource::workspace;
    case CodeKind::load_data:
      return MemorySource::inputs;
    case CodeKind::forward:
    case CodeKind::recompute:
      return MemorySource::activations;
    case CodeKind::backward:
    case CodeKind::communicate:
      return MemorySource::temporaries;
    case CodeKind::optimizer_step:
    case CodeKind::optimizer_setup:
      return MemorySource::optimizer_state;
    case CodeKind::none:
    case CodeKind::plain:
    case CodeKind::constructor:
    case CodeKind::zero_grad:
      break;
  }
  return MemorySource::unknown;
}

bool changes_reserved(Action action) {
  return action == Action::segment_alloc || action == Action::segment_free ||
         action == Action::segment_map || action == Action::segment_unmap;
}

std::optional<std::uint64_t> known(std::uint64_t bytes) {
  return bytes == kUnknownBytes ? std::nullopt : std::optional(bytes);
}

}  // namespace

FollowedDevice::FollowedDevice(DeviceIndex device, const Store& store, LiveLabels& labels)
    : store_(store), labels_(labels), sites_(store) {
  record_.device = device;
}

FollowedDevice::~FollowedDevice() = default;

void FollowedDevice::add_start(const SegmentState& segment, std::span<const BlockState> blocks) {
  ListedState& start = record_.start_state;
  start.segments.push_back(segment);
  start.blocks.insert(start.blocks.end(), blocks.begin(), blocks.end());
  start.first_block.push_back(static_cast<std::uint32_t>(start.blocks.size()));
}

void FollowedDevice::begin() {
  if (!store_.facts().has_pool()) {
    poolless_ = std::make_unique<PoollessPlayer>(record_, static_cast<LifetimeListener*>(this));
    poolless_->begin_with(record_.start_state);
  } else {
    player_ = std::make_unique<Player>(record_, store_.settings(), Player::Mode::tolerant,
                                       static_cast<LifetimeListener*>(this));
    player_->begin_with(listed_history_start(record_.start_state));
  }
  record_.start_state = ListedState();
  reserved_.assign(1, {0, totals().reserved_bytes});
}

void FollowedDevice::add(const EventColumns& events) {
  if (!has_begun()) begin();
  playing_ = &events;
  first_playing_ = events_;
  for (std::size_t done = 0; done < events.size();) {
    apply_labellings();
    const std::size_t end = end_of_part(events, done);
    play(events, done, end);
    events_ = first_playing_ + end;
    if (player_ != nullptr && totals().reserved_bytes != reserved_.back().second)
      reserved_.emplace_back(events_, totals().reserved_bytes);
    done = end;
  }
  playing_ = nullptr;
  if (!events.empty() && events.time_ns.back() != kUnknownTime)
    last_time_ns_ = events.time_ns.back();
  apply_labellings();
  apply_marks();
  apply_samples();
  if (changes_.size() > kMaxChanges) settle();
}

void FollowedDevice::play(const EventColumns& events, std::size_t begin, std::size_t end) {
  const auto first = static_cast<std::uint32_t>(first_playing_);
  if (player_ != nullptr) {
    player_->play(events, first, begin, end);
  } else {
    poolless_->play(events, first, begin, end);
  }
}

std::size_t FollowedDevice::end_of_part(const EventColumns& events, std::size_t begin) const {
  std::size_t end = events.size();
  if (!labellings_.empty())
    end = std::min<std::size_t>(end, labellings_.front().before_event - first_playing_);
  if (player_ == nullptr) return end;
  const auto actions = events.action.span().subspan(begin, end - begin);
  const auto found = std::ranges::find_if(actions, changes_reserved);
  return found == actions.end() ? end
                                : begin + static_cast<std::size_t>(found - actions.begin()) + 1;
}

void FollowedDevice::add(const Labelling& labelling) {
  labellings_.push_back(labelling);
  if (has_begun()) apply_labellings();
}

void FollowedDevice::add(const PhaseMark& mark) {
  marks_.push_back(mark);
  if (has_begun()) apply_marks();
}

void FollowedDevice::add(const DeviceSample& sample) {
  samples_.push_back(sample);
  if (has_begun()) apply_samples();
}

void FollowedDevice::apply_labellings() {
  for (; !labellings_.empty() && labellings_.front().before_event <= events_;
       labellings_.pop_front())
    apply(labellings_.front());
}

void FollowedDevice::apply_marks() {
  for (; !marks_.empty() && marks_.front().before_event <= events_; marks_.pop_front()) {
    settle(marks_.front().before_event);
    if (!steps_.take(marks_.front())) continue;
    sites_.end_step();
    step_start_event_ = marks_.front().before_event;
  }
}

// One that names no event belongs to what has been played by now.
void FollowedDevice::apply_samples() {
  for (; !samples_.empty(); samples_.pop_front()) {
    const std::uint32_t event = samples_.front().before_event;
    if (event != kNoEvent && event > events_) return;
    sample_ = samples_.front();
    reserved_at_sample_ = reserved_before(event);
  }
}

std::uint64_t FollowedDevice::reserved_before(std::uint32_t event) const {
  const auto after = std::ranges::upper_bound(reserved_, std::uint64_t{event}, {},
                                              &std::pair<std::uint64_t, std::uint64_t>::first);
  return after == reserved_.begin() ? reserved_.front().second : std::prev(after)->second;
}

void FollowedDevice::note_change(std::uint32_t event, std::uint32_t site, std::int64_t bytes) {
  changes_.push_back({event, site, bytes, allocated_bytes_});
  // What was there at the start.
  if (playing_ == nullptr) settle(std::numeric_limits<std::uint64_t>::max());
}

void FollowedDevice::settle(std::uint64_t end) {
  for (; !changes_.empty() && changes_.front().event < end; changes_.pop_front()) {
    sites_.settle(changes_.front().site, changes_.front().bytes);
    steps_.note(changes_.front().allocated_bytes);
  }
  while (reserved_.size() > 1 && reserved_[1].first <= end) reserved_.pop_front();
}

AllocationId FollowedDevice::live_at(std::uint64_t address) const {
  return player_ != nullptr ? player_->live_at(address) : poolless_->live_at(address);
}

void FollowedDevice::apply(const Labelling& labelling) {
  for (const Label& label : labels_.used(labelling.set)) {
    const AllocationId row = live_at(label.address);
    if (row.is_none()) continue;
    // What was meant has been freed, and something else is there by now.
    const std::uint32_t birth = record_.allocations.alloc_event[row.index];
    if (birth != kNoEvent && birth >= labelling.before_event) continue;
    const StackId stack = record_.allocations.stack[row.index];
    const bool is_output = !stack.is_none() && is_made_by_model(kind_of(stack));
    if (label.kind == LabelKind::input && is_output) continue;
    const std::optional<LabelKind> known = details_[row.index].label;
    if (known && label_rank(label.kind) < label_rank(*known)) continue;
    set_label(row.index, label.kind);
  }
}

void FollowedDevice::set_label(std::uint32_t row, LabelKind label) {
  Detail& detail = details_[row];
  const std::uint64_t bytes = record_.allocations.requested_bytes[row];
  by_source_[static_cast<std::size_t>(detail.source)] -= bytes;
  detail.source = source_of_label(label);
  by_source_[static_cast<std::size_t>(detail.source)] += bytes;
  if (!detail.label) labelled_bytes_ += bytes;
  detail.label = label;
}

CodeKind FollowedDevice::kind_of(StackId stack) {
  if (kinds_.size() <= stack.index) kinds_ = code_kinds(store_);
  return kinds_[stack.index];
}

void FollowedDevice::allocated(AllocationId row) {
  const AllocationColumns& rows = record_.allocations;
  const std::uint32_t event = rows.alloc_event[row.index];
  const StackId own = rows.stack[row.index];
  const MemorySource source = source_of(own.is_none() ? CodeKind::backward : kind_of(own));
  StackId forward;
  if (event != kNoEvent && playing_ != nullptr && !playing_->forward_stack.empty())
    forward = playing_->forward_stack[event - static_cast<std::uint32_t>(first_playing_)];
  if (details_.size() <= row.index) details_.resize(row.index + 1);
  details_[row.index] = {sites_.site_of(whence(own, forward)), source, {}, true};
  const std::uint64_t bytes = rows.requested_bytes[row.index];
  sites_.add(details_[row.index].site, bytes);
  by_source_[static_cast<std::size_t>(source)] += bytes;
  allocated_bytes_ += rows.size_bytes[row.index];
  recent_peak_bytes_ = std::max(recent_peak_bytes_, allocated_bytes_);
  note_change(event, details_[row.index].site, static_cast<std::int64_t>(bytes));
}

void FollowedDevice::freed(AllocationId row) {
  const AllocationColumns& rows = record_.allocations;
  Detail& detail = details_[row.index];
  detail.is_live = false;
  const std::uint64_t bytes = rows.requested_bytes[row.index];
  sites_.remove(detail.site, bytes);
  by_source_[static_cast<std::size_t>(detail.source)] -= bytes;
  if (detail.label) labelled_bytes_ -= bytes;
  allocated_bytes_ -= rows.size_bytes[row.index];
  note_change(rows.free_requested_event[row.index], detail.site, -static_cast<std::int64_t>(bytes));
}

void FollowedDevice::add(const LostEvents& lost) {
  if (lost.count != LostEvents::kUnknownCount) lost_events_ += lost.count;
  if (!lost.is_bridged) ++contradictions_;
}

MemoryTotals FollowedDevice::totals() const {
  if (player_ != nullptr) return player_->now();
  return poolless_ != nullptr ? poolless_->now() : MemoryTotals();
}

void FollowedDevice::report_card(LiveDevice& report) const {
  const DeviceFacts& facts = store_.facts().device(record_.device);
  report.total_bytes = facts.total_bytes;
  if (report.total_bytes && facts.memory_fraction && *facts.memory_fraction < 1) {
    report.limit_bytes = static_cast<std::uint64_t>(static_cast<double>(*report.total_bytes) *
                                                    *facts.memory_fraction);
  }
  if (!sample_) return;
  if (sample_->total_bytes != kUnknownBytes) report.total_bytes = sample_->total_bytes;
  report.used_bytes = known(sample_->used_bytes);
  report.process_bytes = known(sample_->process_bytes);
  report.other_processes_bytes = known(sample_->other_processes_bytes);
  if (report.process_bytes && *report.process_bytes >= reserved_at_sample_)
    report.outside_pool_bytes = *report.process_bytes - reserved_at_sample_;
  if (!report.used_bytes || *report.used_bytes < reserved_at_sample_) return;
  const std::uint64_t beside_pool = *report.used_bytes - reserved_at_sample_;
  report.used_now_bytes = beside_pool + report.reserved_bytes;
  report.recent_peak_used_bytes = beside_pool + report.recent_peak_reserved_bytes;
}

LiveDevice FollowedDevice::report(std::size_t most_sites, std::size_t most_steps) {
  if (!has_begun() && !record_.start_state.segments.empty()) {
    FollowedDevice begun(record_.device, store_,
                         labels_);  // more of the start may still be written
    begun.record_.start_state = record_.start_state;
    begun.samples_ = samples_;
    begun.add(EventColumns());
    return begun.report(most_sites, most_steps);
  }
  LiveDevice report;
  report.name = store_.device_name(record_.device);
  const DeviceFacts& facts = store_.facts().device(record_.device);
  report.card = facts.name;
  report.has_pool = facts.has_pool;
  report.events = events_;
  report.lost_events = lost_events_;
  report.last_time_ns = last_time_ns_;
  const MemoryTotals now = totals();
  report.allocated_bytes = now.allocated_bytes;
  report.active_bytes = now.active_bytes;
  report.reserved_bytes = now.reserved_bytes;
  report.recent_peak_allocated_bytes = std::exchange(recent_peak_bytes_, allocated_bytes_);
  if (has_begun()) {
    const DeviceReplay played = player_ != nullptr ? player_->summary() : poolless_->result();
    report.peak_allocated_bytes = played.peak.allocated_bytes;
    report.peak_reserved_bytes = played.peak_reserved_bytes;
    report.ooms = played.counters.ooms;
    report.retries = facts.alloc_retries ? facts.alloc_retries : played.counters.alloc_retries;
    report.unclear_retries = played.counters.unclear_retries;
    report.segment_frees = played.counters.segment_frees + played.counters.segment_unmaps;
    const bool has_start = poolless_ != nullptr || store_.origin().has_start;
    report.is_exact = has_start && played.contradictions + contradictions_ == 0;
  }
  report.recent_peak_reserved_bytes = player_ != nullptr ? player_->take_recent_peak_reserved()
                                                         : report.recent_peak_allocated_bytes;
  report_card(report);
  report.bytes_by_source = by_source_;
  report.labelled_bytes = labelled_bytes_;
  LiveSteps steps = steps_;
  for (const Change& change : changes_) steps.note(change.allocated_bytes);
  report.steps = steps.latest(most_steps);
  report.sites = sites_.largest(most_sites);
  return report;
}

}  // namespace gpumemprof
