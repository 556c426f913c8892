// LiveChanges: how many bytes are live after every event of a history, and the least and the most
// in any range, from the lifetimes that replay found.
//
// A position is a moment as a number: 0 is before the first event, p is after event p - 1. A
// history of n events has the positions 0 to n.
//
// Births and deaths are kept in order of position, in blocks of kBlockPositions with the sum before
// each block; above the blocks is a tree of minima and maxima. A sum costs one block, a range two
// blocks and the height of the tree.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/column.h"
#include "event/event.h"
#include "store/history.h"

namespace gpumemprof {

using Position = std::uint32_t;

constexpr Position position_after(std::uint32_t event) { return event + 1; }
// Of something born with this event, or live before the first (kNoEvent).
constexpr Position birth_position(std::uint32_t event) { return event == kNoEvent ? 0 : event + 1; }
constexpr Moment moment_of(Position position) {
  return position == 0 ? Moment::start() : Moment::after(position - 1);
}

// Things with a lifetime: columns of one length that outlive whatever is built from them.
struct LifetimeColumns {
  std::span<const std::uint32_t> birth_events;
  std::span<const std::uint32_t> death_events;
  std::span<const std::uint64_t> sizes_bytes;
  std::span<const AllocationId> never;  // rows to skip, few, in order
};

struct LiveRange {
  std::uint64_t min_bytes = 0;
  std::uint64_t max_bytes = 0;
  Position max_position = 0;  // the first of them
};

class LiveChanges {
 public:
  static constexpr std::uint32_t kBlockPositions = 64;

  LiveChanges(const LifetimeColumns& lifetimes, std::size_t event_count);

  [[nodiscard]] Position last_position() const { return last_position_; }
  [[nodiscard]] std::uint64_t bytes_at(Position position) const;
  // Over [from, to); at least one position.
  [[nodiscard]] LiveRange range(Position from, Position to) const;

  [[nodiscard]] std::size_t block_count() const { return first_change_.size() - 1; }
  [[nodiscard]] static std::size_t block_of(Position position) {
    return position / kBlockPositions;
  }
  // Calls visit(row, is_death) for the changes of position's block up to and including it.
  template <typename Visit>
  void for_each_change_in_block(Position position, Visit&& visit) const {
    const std::size_t block = block_of(position);
    const std::uint32_t offset = position % kBlockPositions;
    for (std::uint32_t change = first_change_[block];
         change < first_change_[block + 1] && offset_[change] <= offset; ++change) {
      visit(code_[change] / 2, (code_[change] & 1U) != 0);
    }
  }

 private:
  void sort_changes(const LifetimeColumns& lifetimes);
  void summarize_blocks();
  void build_tree();
  void scan_block(std::size_t block, Position from, Position to, LiveRange& range) const;
  void add_blocks(std::size_t from, std::size_t to, LiveRange& range) const;
  [[nodiscard]] std::uint64_t applied(std::uint64_t bytes, std::uint32_t change) const;

  std::span<const std::uint64_t> sizes_bytes_;
  Position last_position_;
  Column<std::uint32_t> code_;                // row * 2 + (1: death)
  Column<std::uint8_t> offset_;               // position within the block
  Column<std::uint32_t> first_change_;        // of each block, and after the last
  Column<std::uint64_t> bytes_before_;        // each block
  std::vector<std::vector<LiveRange>> tree_;  // [0]: one per block; [n]: kFanOut of [n - 1]
};

}  // namespace gpumemprof
