#include "capture/output/chapters/live_device.h"

#include <utility>

#include "replay/history_start.h"

namespace gpumemprof::capture {
namespace {

// Row numbers are used for what is waiting only; they start again before they run out.
constexpr std::uint32_t kLastRow = std::uint32_t{1} << 31;

bool returns_memory(Action action) {
  return action == Action::segment_free || action == Action::segment_unmap;
}
bool takes_memory(Action action) {
  return action == Action::segment_alloc || action == Action::segment_map;
}

}  // namespace

LiveDevice::LiveDevice(const AllocatorSettings& settings, bool has_pool)
    : settings_(settings), has_pool_(has_pool) {
  if (!has_pool) begin({});
}

void LiveDevice::begin(ListedState start) {
  has_begun_ = true;
  auto* listener = static_cast<LifetimeListener*>(this);
  if (has_pool_) {
    player_ = std::make_unique<Player>(record_, settings_, Player::Mode::tolerant, listener);
    has_fitted_ = player_->begin_with(listed_history_start(start));
  } else {
    poolless_ = std::make_unique<PoollessPlayer>(record_, listener);
  }
  const std::uint64_t reserved = has_pool_ ? player_->now().reserved_bytes : 0;
  chapter_.begin(allocated_bytes_, reserved);
  current_.begin(allocated_bytes_, reserved);
}

void LiveDevice::play() {
  if (!has_begun_ || events_.empty()) return;
  if (has_pool_) {
    for (std::size_t index = 0; index < events_.size(); ++index) count_rare(index);
    player_->play(events_, first_row_);
    current_.reserved_bytes =
        std::max(current_.reserved_bytes, player_->take_recent_peak_reserved());
  } else {
    poolless_->play(events_, first_row_, 0, events_.size());
    current_.reserved_bytes = current_.peak_bytes;
  }
  chapter_.reserved_bytes = std::max(chapter_.reserved_bytes, current_.reserved_bytes);
  current_.events += events_.size();
  first_row_ += static_cast<std::uint32_t>(events_.size());
  if (first_row_ > kLastRow) first_row_ = 0;
  events_.clear();
  tags_.clear();
}

void LiveDevice::count_rare(std::size_t index) {
  const Action action = events_.action[index];
  if (action == Action::oom) ++failures_;
  // A retry returns what it can and then takes what it wanted; empty_cache() can look the same.
  if (takes_memory(action) && returns_memory(last_action_)) ++retries_;
  last_action_ = action;
}

void LiveDevice::allocated(AllocationId row) {
  if (details_.size() <= row.index) details_.resize(row.index + std::size_t{1});
  Detail& detail = details_[row.index] = Detail();
  const AllocationColumns& rows = record_.allocations;
  if (const std::uint32_t event = rows.alloc_event[row.index]; event != kNoEvent) {
    const std::uint32_t index = event - first_row_;
    detail.time_ns = events_.time_ns[index];
    detail.tag = tags_[index];
    if (!events_.forward_stack.empty()) detail.forward_stack = events_.forward_stack[index];
    if (!events_.module.empty()) detail.module = events_.module[index];
  }
  allocated_bytes_ += rows.size_bytes[row.index];
  chapter_.note(allocated_bytes_);
  current_.note(allocated_bytes_);
}

void LiveDevice::freed(AllocationId row) {
  allocated_bytes_ -= record_.allocations.size_bytes[row.index];
  chapter_.note(allocated_bytes_);
  current_.note(allocated_bytes_);
}

AllocationId LiveDevice::live_at(std::uint64_t address) const {
  if (!has_begun_) return {};
  return has_pool_ ? player_->live_at(address) : poolless_->live_at(address);
}

void LiveDevice::label(std::uint64_t address, LabelKind kind, StringId name) {
  const AllocationId row = live_at(address);
  if (row.is_none()) return;
  Detail& detail = details_[row.index];
  if (detail.is_labelled && label_rank(detail.label) > label_rank(kind)) return;
  detail.is_labelled = true;
  detail.label = kind;
  detail.name = name;
}

const LiveDevice::Detail* LiveDevice::detail(std::uint64_t address) const {
  if (!has_begun_) return nullptr;
  const AllocationId row = has_pool_ ? player_->active_at(address) : poolless_->live_at(address);
  return row.is_none() ? nullptr : &details_[row.index];
}

void LiveDevice::end_stretch() {
  if (has_stretch_) {
    step_.join(current_);
  } else {
    step_ = current_;
  }
  has_stretch_ = true;
  const std::uint64_t reserved = has_pool_ && player_ ? player_->now().reserved_bytes : 0;
  current_.begin(allocated_bytes_, reserved);
}

void LiveDevice::end_step() {
  if (!has_stretch_) return;
  ++step_count_;
  StepSummary figures;
  figures.first = figures.last = step_count_;
  figures.peak_bytes = step_.peak_bytes;
  figures.floor_bytes = step_.floor_bytes;
  figures.reserved_bytes = step_.reserved_bytes;
  figures.end_bytes = allocated_bytes_;
  figures.events = step_.events;
  steps_.push_back(figures);
  has_stretch_ = false;
}

// A program with several optimizers ends a step with the last of them, which is known only when one
// of them steps again.
void LiveDevice::mark(PhaseMark::Kind kind, std::uint32_t number) {
  if (!has_begun_) return;
  play();
  if (kind == PhaseMark::Kind::step_start) {
    end_stretch();
    // What came before the first is not a step.
    if (has_own_marks_) end_step();
    if (!has_own_marks_) {
      steps_.clear();
      step_count_ = 0;
    }
    has_own_marks_ = true;
    has_stretch_ = false;
  } else if (has_own_marks_) {
    return;
  } else if (kind == PhaseMark::Kind::optimizer_end) {
    end_stretch();
  } else if (std::ranges::find(stepped_, number) != stepped_.end()) {
    end_step();
    stepped_ = {number};
  } else {
    stepped_.push_back(number);
  }
}

ChapterFigures::Device LiveDevice::end_chapter(DeviceIndex index) {
  play();
  const ChapterFigures::Device figures{index, chapter_.peak_bytes,
                                       std::max(chapter_.reserved_bytes, chapter_.peak_bytes),
                                       chapter_.floor_bytes, allocated_bytes_};
  const std::uint64_t reserved = has_pool_ && player_ ? player_->now().reserved_bytes : 0;
  chapter_.begin(allocated_bytes_, reserved);
  failures_ = retries_ = 0;
  return figures;
}

ListedState LiveDevice::listed() const {
  if (!has_begun_) return {};
  return has_pool_ ? player_->listed() : poolless_->listed();
}

bool LiveDevice::is_exact() const {
  if (!has_begun_) return events_.empty();
  if (has_pool_) return has_fitted_ && player_->contradictions() == 0;
  return poolless_->result().contradictions == 0;
}

}  // namespace gpumemprof::capture
