#include "sim/allocator/free_set.h"

#include <algorithm>
#include <cstring>

#include "base/error.h"

namespace gpumemprof::sim {
namespace {

void move_entries(FreeEntry* to, const FreeEntry* from, std::size_t count) {
  std::memmove(static_cast<void*>(to), from, count * sizeof(FreeEntry));
}

// Branch-free: the result of each compare is data, not a branch to predict.
template <typename Less>
std::uint32_t lower_bound(const FreeEntry* entries, std::uint32_t count, Less is_less) {
  const FreeEntry* base = entries;
  while (count > 1) {
    const std::uint32_t half = count / 2;
    base += static_cast<std::size_t>(is_less(base[half - 1])) * half;
    count -= half;
  }
  return static_cast<std::uint32_t>(base - entries) +
         static_cast<std::uint32_t>(count == 1 && is_less(*base));
}

// By size first, which is one compare; blocks of equal size are few, or are searched by both keys.
std::uint32_t place_of(const FreeEntry* entries, std::uint32_t count, const FreeEntry& entry) {
  constexpr std::uint32_t kFewEqual = 4;
  std::uint32_t slot = lower_bound(
      entries, count,
      [units = entry.size_units](const FreeEntry& other) { return other.size_units < units; });
  for (std::uint32_t tried = 0; tried < kFewEqual; ++tried, ++slot) {
    if (slot == count || !(entries[slot] < entry)) return slot;
  }
  return slot + lower_bound(entries + slot, count - slot,
                            [&](const FreeEntry& other) { return other < entry; });
}

}  // namespace

template <typename Holds>
std::uint32_t FreeSet::first_chunk(Holds holds_for_last) const {
  const auto reaches = [&](const std::unique_ptr<Chunk>& chunk) {
    return holds_for_last(chunk->entries[chunk->count - 1]);
  };
  if (!chunks_.empty() && reaches(chunks_[0])) return 0;
  const auto found = std::partition_point(chunks_.begin(), chunks_.end(),
                                          [&](const auto& chunk) { return !reaches(chunk); });
  return static_cast<std::uint32_t>(found - chunks_.begin());
}

FreeSet::Position FreeSet::find_fit(std::uint32_t size_units) const {
  const auto is_less = [size_units](const FreeEntry& entry) {
    return entry.size_units < size_units;
  };
  const std::uint32_t index = first_chunk([&](const FreeEntry& last) { return !is_less(last); });
  if (index == chunks_.size()) return end();
  const Chunk& chunk = *chunks_[index];
  return {index, lower_bound(chunk.entries.data(), chunk.count, is_less)};
}

FreeSet::Position FreeSet::next(Position position) const {
  if (position.slot + 1 < chunks_[position.chunk]->count)
    return {position.chunk, position.slot + 1};
  return {position.chunk + 1, 0};
}

FreeSet::Position FreeSet::previous(Position position) const {
  if (position.slot > 0) return {position.chunk, position.slot - 1};
  return {position.chunk - 1, chunks_[position.chunk - 1]->count - 1};
}

std::uint32_t FreeSet::chunk_for(const FreeEntry& entry) const {
  const auto last_chunk = static_cast<std::uint32_t>(chunks_.size() - 1);
  return std::min(last_chunk, first_chunk([&](const FreeEntry& last) { return !(last < entry); }));
}

FreeSet::Position FreeSet::find_place(const FreeEntry& entry) const {
  const std::uint32_t index = chunk_for(entry);
  const Chunk& chunk = *chunks_[index];
  return {index, place_of(chunk.entries.data(), chunk.count, entry)};
}

void FreeSet::insert(const FreeEntry& entry) {
  if (chunks_.empty()) {
    chunks_.push_back(spare_ ? std::move(spare_) : std::make_unique<Chunk>());
    chunks_[0]->count = 1;
    chunks_[0]->entries[0] = entry;
    size_ = 1;
    return;
  }
  Position position = find_place(entry);
  if (chunks_[position.chunk]->count == kChunkEntries) {
    split_chunk(position.chunk);
    position = find_place(entry);
  }
  Chunk& chunk = *chunks_[position.chunk];
  FreeEntry* slot = chunk.entries.data() + position.slot;
  move_entries(slot + 1, slot, chunk.count - position.slot);
  *slot = entry;
  ++chunk.count;
  ++size_;
}

void FreeSet::erase(Position position) {
  Chunk& chunk = *chunks_[position.chunk];
  FreeEntry* slot = chunk.entries.data() + position.slot;
  move_entries(slot, slot + 1, chunk.count - position.slot - 1);
  --chunk.count;
  --size_;
  if (chunk.count < kFewEntries) [[unlikely]]
    join_small_chunk(position.chunk);
}

FreeSet::Position FreeSet::find(const FreeEntry& entry) const {
  if (chunks_.empty()) return end();
  const Position position = find_place(entry);
  const Chunk& chunk = *chunks_[position.chunk];
  return position.slot < chunk.count && chunk.entries[position.slot].block == entry.block ? position
                                                                                          : end();
}

void FreeSet::replace(Position position, const FreeEntry& entry) {
  Chunk& chunk = *chunks_[position.chunk];
  FreeEntry* entries = chunk.entries.data();
  const std::uint32_t slot = position.slot;
  if (slot > 0 && entry < entries[slot - 1]) {
    const std::uint32_t target = place_of(entries, slot, entry);
    if (target > 0 || position.chunk == 0) [[likely]] {
      move_entries(entries + target + 1, entries + target, slot - target);
      entries[target] = entry;
      return;
    }
  } else if (slot + 1 < chunk.count && entries[slot + 1] < entry) {
    const std::uint32_t target = slot + place_of(entries + slot + 1, chunk.count - slot - 1, entry);
    if (target + 1 < chunk.count || position.chunk + 1 == chunks_.size()) [[likely]] {
      move_entries(entries + slot, entries + slot + 1, target - slot);
      entries[target] = entry;
      return;
    }
  } else if ((slot > 0 || position.chunk == 0) &&
             (slot + 1 < chunk.count || position.chunk + 1 == chunks_.size())) {
    entries[slot] = entry;
    return;
  }
  // It may belong to another chunk.
  erase(position);
  insert(entry);
}

void FreeSet::split_chunk(std::uint32_t index) {
  auto upper = std::make_unique<Chunk>();
  Chunk& lower = *chunks_[index];
  const std::uint32_t kept = lower.count / 2;
  upper->count = lower.count - kept;
  move_entries(upper->entries.data(), lower.entries.data() + kept, upper->count);
  lower.count = kept;
  chunks_.insert(chunks_.begin() + index + 1, std::move(upper));
}

void FreeSet::join_small_chunk(std::uint32_t index) {
  const auto drop = [this](std::uint32_t which) { chunks_.erase(chunks_.begin() + which); };
  if (chunks_.size() == 1) {
    if (chunks_[0]->count > 0) return;
    spare_ = std::move(chunks_[0]);
    chunks_.clear();
    return;
  }
  const std::uint32_t left = index > 0 ? index - 1 : index;
  Chunk& into = *chunks_[left];
  const Chunk& from = *chunks_[left + 1];
  if (into.count + from.count <= kChunkEntries / 2) {
    move_entries(into.entries.data() + into.count, from.entries.data(), from.count);
    into.count += from.count;
    drop(left + 1);
  } else if (chunks_[index]->count == 0) {
    drop(index);
  }
}

bool FreeSet::is_valid() const {
  std::size_t counted = 0;
  const FreeEntry* last = nullptr;
  for (const auto& chunk : chunks_) {
    if (chunk->count == 0 || chunk->count > kChunkEntries) return false;
    for (std::uint32_t slot = 0; slot < chunk->count; ++slot) {
      if (last != nullptr && !(*last < chunk->entries[slot])) return false;
      last = &chunk->entries[slot];
    }
    counted += chunk->count;
  }
  return counted == size_;
}

}  // namespace gpumemprof::sim
