#include "replay/player.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "event/rules/split_rule.h"
#include "replay/rows.h"

namespace gpumemprof {
namespace {

// Whether the allocator started with expandable segments: decided by the first memory it took from
// the driver. The settings, which are those at the end, are used only where it took none.
bool starts_expandable(const EventColumns& events, const AllocatorSettings& settings) {
  for (const Action action : events.action) {
    if (action == Action::segment_map) return true;
    if (action == Action::segment_alloc) return false;
  }
  return settings.expandable_segments;
}

}  // namespace

Player::Player(DeviceRecord& record, const AllocatorSettings& settings, Mode mode,
               LifetimeListener* listener)
    : record_(record),
      settings_(settings),
      mode_(mode),
      listener_(listener),
      expandable_mode_(
          record.starts_expandable.value_or(starts_expandable(record.events, settings))) {
  record_.allocations.clear();
  record_.segments.clear();
}

bool Player::begin_with(const HistoryStart& start) {
  for (const StartSegment& segment : start.segments) {
    const SegmentState& state = segment.state;
    const SegmentId row = new_segment(kNoEvent, state);
    const bool fits = state.is_expandable
                          ? blocks_.map_pages(state.address, state.size_bytes, row)
                          : blocks_.add_segment(state.address, state.size_bytes, row);
    if (!fits) return false;
    now_.reserved_bytes += state.size_bytes;
    for (const StartBlock& block : segment.blocks) {
      std::uint32_t free_block = blocks_.find_containing(block.address);
      if (free_block == kNoBlock || !blocks_[free_block].is_free()) return false;
      if (blocks_[free_block].address < block.address)
        free_block = blocks_.split_free(free_block, block.address);
      if (block.size_bytes == 0 || block.size_bytes > blocks_[free_block].size_bytes) return false;
      const AllocationId allocation = new_allocation(kNoEvent, block, row);
      blocks_.take(free_block, block.size_bytes, allocation);
      blocks_[free_block].is_pending = block.is_pending;
      if (block.is_pending) {
        record_.allocations.free_requested_event[allocation.index] = 0;
        record_.allocations.pending_at_start.push_back(allocation);
        if (listener_ != nullptr) listener_->freed(allocation);
      } else {
        now_.allocated_bytes += block.size_bytes;
      }
      now_.active_bytes += block.size_bytes;
      now_.requested_bytes += block.requested_bytes;
      if (!block.is_size_certain) uncertain_.push_back(allocation);
      ++result_.blocks_from_before;
    }
  }
  result_.start = result_.peak = now_;
  result_.peak_reserved_bytes = now_.reserved_bytes;
  result_.peak_active_bytes = now_.active_bytes;
  result_.peak_requested_bytes = now_.requested_bytes;
  return blocks_.is_valid();
}

void Player::keep_rows(const std::vector<std::uint32_t>& kept) {
  AllocationColumns& rows = record_.allocations;
  keep_only(rows, kept);
  for (std::uint32_t row = 0; row < kept.size(); ++row) {
    if (rows.free_completed_event[row] != kNoEvent) continue;
    const std::uint32_t block = blocks_.find(rows.address[row]);
    if (block != kNoBlock && blocks_[block].allocation == AllocationId(kept[row]))
      blocks_[block].allocation = AllocationId(row);
  }
  std::vector<AllocationId> uncertain;
  for (const AllocationId old : uncertain_) {
    const auto place = std::lower_bound(kept.begin(), kept.end(), old.index);
    if (place != kept.end() && *place == old.index)
      uncertain.emplace_back(static_cast<std::size_t>(place - kept.begin()));
  }
  uncertain_ = std::move(uncertain);
}

std::uint64_t Player::take_recent_peak_reserved() {
  return std::max(std::exchange(recent_peak_reserved_, 0), now_.reserved_bytes);
}

bool Player::play(const EventColumns& events, std::uint32_t first, std::size_t begin,
                  std::size_t end) {
  events_ = &events;
  first_ = first;
  const auto past = first + static_cast<std::uint32_t>(end);
  // Nearly all memory is free as soon as that is asked for: the block need not be found twice.
  const auto completes_at_once = [&](std::uint32_t event) {
    return event + 1 != past && action(event + 1) == Action::free_completed &&
           address(event + 1) == address(event) && size_bytes(event + 1) == size_bytes(event);
  };
  for (auto event = first + static_cast<std::uint32_t>(begin); event != past; ++event) {
    bool agrees = true;
    switch (action(event)) {
      case Action::alloc:
        agrees = alloc(event);
        break;
      case Action::free_requested: {
        const std::uint32_t block = blocks_.find(address(event));
        agrees = is_freeable(block, size_bytes(event));
        if (!agrees) break;
        mark_freed(block, event);
        if (completes_at_once(event)) complete_free(block, ++event);
        break;
      }
      case Action::free_completed:
        agrees = free_completed(event);
        break;
      case Action::segment_alloc:
      case Action::segment_free:
      case Action::segment_map:
      case Action::segment_unmap:
        agrees = segment_event(event);
        break;
      case Action::oom:
        ++result_.counters.ooms;
        break;
      case Action::placed:
        placed_event_ = event;
        placed_address_ = address(event);
        placed_bytes_ = size_bytes(event);
        break;
      default:
        break;
    }
    if (!agrees && !contradiction(event)) return false;
  }
  return true;
}

std::uint64_t Player::block_size(std::uint32_t block, std::uint64_t requested_bytes) const {
  const Block& free_block = blocks_[block];
  const std::uint64_t rounded = settings_.round_size(requested_bytes);
  if (rounded > free_block.size_bytes) return 0;
  const SegmentMode mode =
      free_block.is_expandable || expandable_mode_ ? SegmentMode::expandable : SegmentMode::plain;
  return splits_block(settings_, mode, rounded, free_block.size_bytes) ? rounded
                                                                       : free_block.size_bytes;
}

// Where chapters of a recording are missing, the size of a block is known, and memory before it may
// be free that was not when it was placed.
std::uint32_t Player::make_place(std::uint64_t at, std::uint64_t size_bytes) {
  std::uint32_t block = blocks_.find_containing(at);
  if (block == kNoBlock || !blocks_[block].is_free()) return kNoBlock;
  if (blocks_[block].address < at) block = blocks_.split_free(block, at);
  return size_bytes > 0 && size_bytes <= blocks_[block].size_bytes ? block : kNoBlock;
}

bool Player::alloc(std::uint32_t event) {
  const std::uint64_t at = address(event);
  std::uint64_t placed_bytes = 0;
  if (placed_event_ != kNoEvent && std::exchange(placed_event_, kNoEvent) + 1 == event &&
      placed_address_ == at)
    placed_bytes = placed_bytes_;
  std::uint32_t block = placed_bytes > 0 ? make_place(at, placed_bytes) : blocks_.find(at);
  if (block == kNoBlock && correct_previous(at)) block = blocks_.find(at);
  if (block == kNoBlock || !blocks_[block].is_free()) return false;
  const std::uint64_t requested_bytes = this->size_bytes(event);
  const std::uint64_t size_bytes =
      placed_bytes > 0 ? placed_bytes : block_size(block, requested_bytes);
  if (size_bytes == 0) return false;
  if (!uncertain_.empty()) confirm_previous(block);
  const StartBlock placed{
      at, size_bytes, requested_bytes, events_->stream[event - first_], stack(event), false, true};
  blocks_.take(block, size_bytes, new_allocation(event, placed, blocks_[block].segment));
  now_.allocated_bytes += size_bytes;
  now_.active_bytes += size_bytes;
  now_.requested_bytes += requested_bytes;
  result_.peak_active_bytes = std::max(result_.peak_active_bytes, now_.active_bytes);
  result_.peak_requested_bytes = std::max(result_.peak_requested_bytes, now_.requested_bytes);
  ++result_.counters.allocations;
  if (now_.allocated_bytes > result_.peak.allocated_bytes) {
    result_.peak = now_;
    result_.peak_event = event;
  }
  return true;
}

// A free reports the requested size; a different size belongs to a block whose allocation was not
// recorded.
bool Player::is_size_of(std::uint32_t block, std::uint64_t size_bytes) const {
  const Block& known = blocks_[block];
  return size_bytes == record_.allocations.requested_bytes[known.allocation.index] ||
         size_bytes == known.size_bytes;
}

bool Player::is_freeable(std::uint32_t block, std::uint64_t size_bytes) const {
  return block != kNoBlock && !blocks_[block].is_free() && !blocks_[block].is_pending &&
         is_size_of(block, size_bytes);
}

void Player::mark_freed(std::uint32_t block, std::uint32_t event) {
  blocks_[block].is_pending = true;
  now_.allocated_bytes -= blocks_[block].size_bytes;
  record_.allocations.free_requested_event[blocks_[block].allocation.index] = event;
  ++result_.counters.frees;
  if (listener_ != nullptr) listener_->freed(blocks_[block].allocation);
}

bool Player::free_completed(std::uint32_t event) {
  const std::uint32_t block = blocks_.find(address(event));
  if (block == kNoBlock || blocks_[block].is_free() || !blocks_[block].is_pending) return false;
  if (!is_size_of(block, size_bytes(event))) return false;
  complete_free(block, event);
  return true;
}

void Player::complete_free(std::uint32_t block, std::uint32_t event) {
  now_.active_bytes -= blocks_[block].size_bytes;
  end_allocation(blocks_[block].allocation.index, event);
  blocks_.release(block);
}

SegmentState Player::segment_of(std::uint32_t event) const {
  SegmentState segment;
  segment.device = record_.device;
  segment.address = address(event);
  segment.size_bytes = size_bytes(event);
  segment.stream = events_->stream[event - first_];
  segment.pool = events_->pool.empty() ? kNoPool : events_->pool[event - first_];
  segment.is_expandable = action(event) == Action::segment_map;
  segment.is_small = segment.size_bytes <= kSmallSegmentBytes;
  segment.stack = stack(event);
  return segment;
}

bool Player::segment_event(std::uint32_t event) {
  const SegmentState segment = segment_of(event);
  const Action kind = action(event);
  const bool takes = kind == Action::segment_alloc || kind == Action::segment_map;
  if (takes) {
    note_retry(event);
    const SegmentId row = next_segment();
    const bool fits = segment.is_expandable
                          ? blocks_.map_pages(segment.address, segment.size_bytes, row)
                          : blocks_.add_segment(segment.address, segment.size_bytes, row);
    if (!fits) return false;
    new_segment(event, segment);
    expandable_mode_ = segment.is_expandable;
    now_.reserved_bytes += segment.size_bytes;
    ++(segment.is_expandable ? result_.counters.segment_maps : result_.counters.segment_allocs);
    recent_peak_reserved_ = std::max(recent_peak_reserved_, now_.reserved_bytes);
    if (now_.reserved_bytes > result_.peak_reserved_bytes) {
      result_.peak_reserved_bytes = now_.reserved_bytes;
      result_.peak_reserved_event = event;
    }
    return true;
  }
  burst_end_ = event;
  burst_stack_ = stack(event);
  const bool fits = kind == Action::segment_free
                        ? blocks_.remove_segment(segment.address, segment.size_bytes)
                        : blocks_.unmap_pages(segment.address, segment.size_bytes);
  if (!fits) return false;
  end_segments(event, segment.address, segment.size_bytes);
  now_.reserved_bytes -= segment.size_bytes;
  ++(kind == Action::segment_free ? result_.counters.segment_frees
                                  : result_.counters.segment_unmaps);
  return true;
}

// A retry returns everything it can and then immediately takes what it wanted. So does
// empty_cache() before a large request, and cuDNN may call it from inside one: only a burst with a
// different stack than the request is certainly not a retry.
void Player::note_retry(std::uint32_t event) {
  if (burst_end_ == kNoEvent || burst_end_ + 1 != event) return;
  const StackId request = stack(event);
  if (burst_stack_.is_none() || request.is_none() || burst_stack_ == request) ++unclear_retries_;
}

AllocationId Player::new_allocation(std::uint32_t event, const StartBlock& block,
                                    SegmentId segment) {
  AllocationColumns& allocations = record_.allocations;
  const AllocationId row(take_row(free_allocations_, allocations.size()));
  put(allocations.address, row.index, block.address);
  put(allocations.size_bytes, row.index, block.size_bytes);
  put(allocations.requested_bytes, row.index, block.requested_bytes);
  put(allocations.alloc_event, row.index, event);
  put(allocations.free_requested_event, row.index, kNoEvent);
  put(allocations.free_completed_event, row.index, kNoEvent);
  put(allocations.stream, row.index, block.stream);
  put(allocations.stack, row.index, block.stack);
  put(allocations.segment, row.index, segment);
  if (listener_ != nullptr) listener_->allocated(row);
  return row;
}

void Player::end_allocation(std::uint32_t row, std::uint32_t event) {
  now_.requested_bytes -= record_.allocations.requested_bytes[row];
  record_.allocations.free_completed_event[row] = event;
  if (listener_ != nullptr) free_allocations_.push_back(row);
}

SegmentId Player::next_segment() const {
  return SegmentId(free_segments_.empty() ? record_.segments.size() : free_segments_.back());
}

SegmentId Player::new_segment(std::uint32_t event, const SegmentState& segment) {
  SegmentColumns& segments = record_.segments;
  const SegmentId row = next_segment();
  if (!free_segments_.empty()) free_segments_.pop_back();
  put(segments.address, row.index, segment.address);
  put(segments.size_bytes, row.index, segment.size_bytes);
  put(segments.birth_event, row.index, event);
  put(segments.death_event, row.index, kNoEvent);
  put(segments.stream, row.index, segment.stream);
  put(segments.pool, row.index, segment.pool);
  put(segments.is_expandable, row.index, std::uint8_t{segment.is_expandable});
  put(segments.is_small, row.index, std::uint8_t{segment.is_small});
  put(segments.stack, row.index, segment.stack);
  live_segments_[segment.address] = row;
  return row;
}

void Player::end_segment(std::uint32_t row, std::uint32_t event) {
  record_.segments.death_event[row] = event;
  if (listener_ != nullptr) free_segments_.push_back(row);
}

// Ends the segments that cover the range; a mapped piece that goes only in part lives on as its
// remaining parts.
void Player::end_segments(std::uint32_t event, std::uint64_t address, std::uint64_t size_bytes) {
  SegmentColumns& segments = record_.segments;
  const std::uint64_t end = address + size_bytes;
  auto piece = live_segments_.upper_bound(address);
  if (piece != live_segments_.begin()) piece = std::prev(piece);
  std::vector<SegmentState> kept;
  while (piece != live_segments_.end() && piece->first < end) {
    const std::uint32_t row = piece->second.index;
    const std::uint64_t piece_end = piece->first + segments.size_bytes[row];
    if (piece_end <= address) {
      ++piece;
      continue;
    }
    SegmentState rest{record_.device,
                      piece->first,
                      0,
                      segments.stream[row],
                      segments.pool[row],
                      segments.is_small[row] != 0,
                      true,
                      segments.stack[row]};
    if (piece->first < address) {
      rest.size_bytes = address - piece->first;
      kept.push_back(rest);
    }
    if (piece_end > end) {
      rest.address = end;
      rest.size_bytes = piece_end - end;
      kept.push_back(rest);
    }
    end_segment(row, event);
    piece = live_segments_.erase(piece);
  }
  // The remainder starts where the whole ends, so that no moment counts it twice.
  for (const SegmentState& rest : kept) new_segment(event, rest);
}

std::uint32_t Player::exact_from() const {
  const AllocationColumns& allocations = record_.allocations;
  std::uint32_t from = contradictions_ == 0 ? 0 : last_contradiction_ + 1;
  for (const AllocationId allocation : uncertain_) {
    from = std::max(from, allocations.free_completed_event[allocation.index]);
  }
  if (contradictions_ == 0) return from;
  // Events are missing at an unknown place: any block placed before the last contradiction may have
  // been placed in different free memory than it seemed. That affects only the size of large blocks
  // of plain segments.
  for (std::size_t row = 0; row < allocations.size(); ++row) {
    const bool was_placed_before =
        allocations.alloc_event[row] == kNoEvent || allocations.alloc_event[row] < from;
    const bool is_plain = record_.segments.is_expandable[allocations.segment[row].index] == 0;
    const bool is_gone =
        allocations.free_completed_event[row] != kNoEvent;  // the others are compared with the end
    if (was_placed_before && is_plain && is_gone &&
        allocations.size_bytes[row] > kSmallPoolMaxBytes) {
      from = std::max(from, allocations.free_completed_event[row]);
    }
  }
  return from;
}

bool Player::end_matches(const ListedState& final_state) const {
  MemoryTotals listed;
  for (std::size_t index = 0; index < final_state.segments.size(); ++index) {
    listed.reserved_bytes += final_state.segments[index].size_bytes;
    for (const BlockState& state : final_state.blocks_of(index)) {
      if (state.state == BlockStateKind::inactive) continue;
      const std::uint32_t block = blocks_.find(state.address);
      const bool is_pending = state.state == BlockStateKind::active_pending_free;
      if (block == kNoBlock || blocks_[block].is_free() ||
          blocks_[block].size_bytes != state.size_bytes ||
          blocks_[block].is_pending != is_pending) {
        return false;
      }
      listed.active_bytes += state.size_bytes;
      if (!is_pending) listed.allocated_bytes += state.size_bytes;
      listed.requested_bytes += state.requested_bytes;
    }
  }
  return listed == now_;
}

DeviceReplay Player::summary() const {
  DeviceReplay result = result_;
  result.end.totals = now_;
  std::uint64_t mapped_until = 0;
  for (const auto& [address, row] : live_segments_) {
    if (record_.segments.is_expandable[row.index] != 0) {
      // Adjacent pieces form one run.
      if (address != mapped_until) ++result.end.mapped_runs;
      mapped_until = address + record_.segments.size_bytes[row.index];
      continue;
    }
    ++result.end.segments;
    for (std::uint32_t block = blocks_.find(address); block != kNoBlock;
         block = blocks_[block].next) {
      const bool is_split = blocks_[block].previous != kNoBlock || blocks_[block].next != kNoBlock;
      if (blocks_[block].is_free() && is_split)
        result.end.inactive_split_bytes += blocks_[block].size_bytes;
    }
  }
  // Every out-of-memory error was preceded by a retry.
  result.counters.alloc_retries = result.counters.ooms;
  result.counters.unclear_retries = unclear_retries_;
  if (unclear_retries_ > 0) result.counters.alloc_retries.reset();
  result.contradictions = contradictions_;
  return result;
}

}  // namespace gpumemprof
