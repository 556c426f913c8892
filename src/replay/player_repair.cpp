// Following a recording that contradicts itself: a wrapped ring buffer, events left out on purpose,
// or settings changed during the run.
#include <algorithm>

#include "replay/player.h"

namespace gpumemprof {

bool Player::contradiction(std::uint32_t event) {
  ++contradictions_;
  last_contradiction_ = event;
  if (mode_ == Mode::strict) return false;
  switch (action(event)) {
    case Action::alloc:
      return repair_alloc(event);
    case Action::free_requested:
    case Action::free_completed:
      repair_free(event);
      break;
    default:
      break;  // a segment that overlaps another or does not exist: ignored
  }
  return true;
}

bool Player::is_uncertain(std::uint32_t block) const {
  return !blocks_[block].is_free() &&
         std::binary_search(uncertain_.begin(), uncertain_.end(), blocks_[block].allocation);
}

// An allocation starts where a free block starts. Where it does not, the block before it must
// extend up to here, if its size was only assumed.
bool Player::correct_previous(std::uint64_t address) {
  if (uncertain_.empty()) return false;
  const std::uint32_t block = blocks_.find_containing(address);
  if (block == kNoBlock || !blocks_[block].is_free()) return false;
  const std::uint32_t previous = blocks_[block].previous;
  if (previous == kNoBlock || !is_uncertain(previous)) return false;
  const std::uint64_t size_bytes = address - blocks_[previous].address;
  const std::uint64_t more = size_bytes - blocks_[previous].size_bytes;
  // A larger remainder would have been split off.
  if (more > kSmallPoolMaxBytes || !blocks_.grow(previous, size_bytes)) return false;
  record_.allocations.size_bytes[blocks_[previous].allocation.index] = size_bytes;
  now_.active_bytes += more;
  if (!blocks_[previous].is_pending) now_.allocated_bytes += more;
  return true;
}

// Free memory is one block, so the block right before it ends where it starts.
void Player::confirm_previous(std::uint32_t block) {
  const std::uint32_t previous = blocks_[block].previous;
  if (previous == kNoBlock || !is_uncertain(previous)) return;
  corrections_.emplace_back(blocks_[previous].address, blocks_[previous].size_bytes);
}

// Whatever is where the new block goes must have been freed without an event.
bool Player::repair_alloc(std::uint32_t event) {
  const std::uint64_t address = this->address(event);
  const std::uint64_t needed = settings_.round_size(size_bytes(event));
  std::uint32_t block = blocks_.find_containing(address);
  if (block == kNoBlock) {
    SegmentState segment = segment_of(event);
    segment.size_bytes = needed;
    segment.is_expandable = false;
    for (const SegmentState& known : record_.final_state.segments) {
      if (address >= known.address && address - known.address < known.size_bytes) segment = known;
    }
    const SegmentId row = next_segment();
    if (!blocks_.add_segment(segment.address, segment.size_bytes, row)) return true;
    new_segment(event, segment);
    now_.reserved_bytes += segment.size_bytes;
    block = blocks_.find_containing(address);
  }
  if (!blocks_[block].is_free()) forget(block, event);
  block = blocks_.find_containing(address);
  if (blocks_[block].address < address) block = blocks_.split_free(block, address);
  while (blocks_[block].size_bytes < needed && blocks_[block].next != kNoBlock) {
    const std::uint32_t next = blocks_[block].next;
    if (blocks_[next].is_free()) break;
    forget(next, event);
    block = blocks_.find_containing(address);
    if (blocks_[block].address < address) block = blocks_.split_free(block, address);
  }
  alloc(event);
  return true;
}

// A completion whose request was left out, a request whose completion was, or a block that replaced
// another without an event.
void Player::repair_free(std::uint32_t event) {
  const std::uint32_t block = blocks_.find(address(event));
  if (block == kNoBlock || blocks_[block].is_free()) return;
  if (action(event) == Action::free_completed) {
    forget(block, event);
  } else if (!blocks_[block].is_pending) {
    mark_freed(block, event);
  }
}

void Player::forget(std::uint32_t block, std::uint32_t event) {
  const Block gone = blocks_[block];
  const std::uint32_t row = gone.allocation.index;
  if (!gone.is_pending) {
    now_.allocated_bytes -= gone.size_bytes;
    record_.allocations.free_requested_event[row] = event;
    if (listener_ != nullptr) listener_->freed(gone.allocation);
  }
  now_.active_bytes -= gone.size_bytes;
  end_allocation(row, event);
  blocks_.release(block);
}

}  // namespace gpumemprof
