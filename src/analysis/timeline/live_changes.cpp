#include "analysis/timeline/live_changes.h"

#include <algorithm>

namespace gpumemprof {
namespace {

constexpr std::size_t kFanOut = 16;

void join(LiveRange& range, const LiveRange& later) {
  range.min_bytes = std::min(range.min_bytes, later.min_bytes);
  if (later.max_bytes > range.max_bytes) {
    range.max_bytes = later.max_bytes;
    range.max_position = later.max_position;
  }
}

// A range that can be joined with anything and has no maximum of its own yet.
LiveRange nothing_yet() { return {kUnknownBytes, 0, kNoEvent}; }

void add_value(LiveRange& range, std::uint64_t bytes, Position position) {
  range.min_bytes = std::min(range.min_bytes, bytes);
  if (bytes > range.max_bytes || range.max_position == kNoEvent) {
    range.max_bytes = bytes;
    range.max_position = position;
  }
}

void add_range(LiveRange& range, const LiveRange& later) {
  if (range.max_position == kNoEvent) {
    range = later;
  } else {
    join(range, later);
  }
}

}  // namespace

LiveChanges::LiveChanges(const LifetimeColumns& lifetimes, std::size_t event_count)
    : sizes_bytes_(lifetimes.sizes_bytes), last_position_(static_cast<Position>(event_count)) {
  sort_changes(lifetimes);
  summarize_blocks();
  build_tree();
}

// Counting sort: one pass to count the changes at each position, one to place them.
void LiveChanges::sort_changes(const LifetimeColumns& lifetimes) {
  const std::size_t positions = std::size_t{last_position_} + 1;
  Column<std::uint32_t> next;
  next.resize(positions + 1, 0);
  std::vector<bool> is_never;
  if (!lifetimes.never.empty()) is_never.resize(lifetimes.birth_events.size(), false);
  for (const AllocationId row : lifetimes.never) is_never[row.index] = true;
  const auto for_each = [&](auto&& visit) {
    for (std::uint32_t row = 0; row < lifetimes.birth_events.size(); ++row) {
      if (!is_never.empty() && is_never[row]) continue;
      const Position birth = birth_position(lifetimes.birth_events[row]);
      if (birth > last_position_) continue;
      visit(birth, row * 2);
      const std::uint32_t death = lifetimes.death_events[row];
      // Nothing dies before it is born; such a row in a damaged history never dies at all.
      if (death >= last_position_ || position_after(death) < birth) continue;
      visit(position_after(death), row * 2 + 1);
    }
  };
  for_each([&](Position position, std::uint32_t) { ++next[position + 1]; });
  for (std::size_t position = 0; position < positions; ++position)
    next[position + 1] += next[position];
  const std::size_t blocks = block_of(last_position_) + 1;
  for (std::size_t block = 0; block < blocks; ++block)
    first_change_.push_back(next[block * kBlockPositions]);
  first_change_.push_back(next[positions]);
  code_.resize(next[positions], 0);
  offset_.resize(next[positions], 0);
  for_each([&](Position position, std::uint32_t code) {
    const std::uint32_t change = next[position]++;
    code_[change] = code;
    offset_[change] = static_cast<std::uint8_t>(position % kBlockPositions);
  });
}

std::uint64_t LiveChanges::applied(std::uint64_t bytes, std::uint32_t change) const {
  const std::uint64_t size = sizes_bytes_[code_[change] / 2];
  return (code_[change] & 1U) != 0 ? bytes - size : bytes + size;
}

void LiveChanges::summarize_blocks() {
  std::uint64_t bytes = 0;
  std::vector<LiveRange>& leaves = tree_.emplace_back();
  for (std::size_t block = 0; block < block_count(); ++block) {
    bytes_before_.push_back(bytes);
    LiveRange& range = leaves.emplace_back(nothing_yet());
    const auto from = static_cast<Position>(block * kBlockPositions);
    scan_block(block, from, from + kBlockPositions, range);
    for (std::uint32_t change = first_change_[block]; change < first_change_[block + 1]; ++change)
      bytes = applied(bytes, change);
  }
}

void LiveChanges::build_tree() {
  while (tree_.back().size() > 1) {
    const std::vector<LiveRange>& below = tree_.back();
    std::vector<LiveRange> level;
    for (std::size_t first = 0; first < below.size(); first += kFanOut) {
      LiveRange range = below[first];
      for (std::size_t child = first + 1; child < std::min(first + kFanOut, below.size()); ++child)
        join(range, below[child]);
      level.push_back(range);
    }
    tree_.push_back(std::move(level));
  }
}

// The positions of [from, to) that are in the block.
void LiveChanges::scan_block(std::size_t block, Position from, Position to,
                             LiveRange& range) const {
  const auto start = static_cast<Position>(block * kBlockPositions);
  const Position end = std::min(to, start + kBlockPositions);
  std::uint64_t bytes = bytes_before_[block];
  std::uint32_t change = first_change_[block];
  const std::uint32_t last = first_change_[block + 1];
  for (Position position = from; position < end;) {
    while (change < last && start + offset_[change] <= position) bytes = applied(bytes, change++);
    add_value(range, bytes, position);
    if (change == last) break;
    position = start + offset_[change];
  }
}

void LiveChanges::add_blocks(std::size_t from, std::size_t to, LiveRange& range) const {
  std::size_t level = 0;
  std::size_t scale = 1;
  for (std::size_t block = from; block < to;) {
    while (level + 1 < tree_.size() && block % (scale * kFanOut) == 0 &&
           block + scale * kFanOut <= to) {
      ++level;
      scale *= kFanOut;
    }
    while (block + scale > to) {
      --level;
      scale /= kFanOut;
    }
    add_range(range, tree_[level][block / scale]);
    block += scale;
  }
}

std::uint64_t LiveChanges::bytes_at(Position position) const {
  std::uint64_t bytes = bytes_before_[block_of(position)];
  for_each_change_in_block(position, [&](std::uint32_t row, bool is_death) {
    bytes += is_death ? std::uint64_t{0} - sizes_bytes_[row] : sizes_bytes_[row];
  });
  return bytes;
}

LiveRange LiveChanges::range(Position from, Position to) const {
  LiveRange range = nothing_yet();
  const std::size_t first = block_of(from);
  const std::size_t last = block_of(to - 1);
  if (first == last) {
    scan_block(first, from, to, range);
    return range;
  }
  scan_block(first, from, to, range);
  add_blocks(first + 1, last, range);
  scan_block(last, static_cast<Position>(last * kBlockPositions), to, range);
  return range;
}

}  // namespace gpumemprof
