// FlatMap: 64-bit key → small value, open addressing, linear probing, deletion without tombstones.
//
// Made for keys that are addresses: their low nine bits are zero, so the key is mixed before use.
// One key value (kEmpty) cannot be stored; no address and no hash we use has it.
#pragma once

#include <cstdint>
#include <limits>
#include <vector>

#include "base/error.h"

namespace gpumemprof {

template <typename Value>
class FlatMap {
 public:
  static constexpr std::uint64_t kEmpty = std::numeric_limits<std::uint64_t>::max();

  FlatMap() { rehash(16); }

  [[nodiscard]] std::size_t size() const { return size_; }

  // Any key may be looked up, kEmpty too.
  Value* find(std::uint64_t key) {
    for (std::size_t slot = home(key);; slot = (slot + 1) & mask_) {
      if (slots_[slot].key == kEmpty) return nullptr;
      if (slots_[slot].key == key) return &slots_[slot].value;
    }
  }
  const Value* find(std::uint64_t key) const { return const_cast<FlatMap*>(this)->find(key); }

  // Returns the value for key, inserting fallback if it was not there. key must not be kEmpty.
  Value& find_or_insert(std::uint64_t key, Value fallback) {
    if (2 * (size_ + 1) > slots_.size()) rehash(slots_.size() * 2);
    for (std::size_t slot = home(key);; slot = (slot + 1) & mask_) {
      if (slots_[slot].key == key) return slots_[slot].value;
      if (slots_[slot].key == kEmpty) {
        slots_[slot] = {key, fallback};
        ++size_;
        return slots_[slot].value;
      }
    }
  }

  void insert_or_assign(std::uint64_t key, Value value) { find_or_insert(key, value) = value; }

  bool erase(std::uint64_t key) {
    for (std::size_t slot = home(key);; slot = (slot + 1) & mask_) {
      if (slots_[slot].key == kEmpty) return false;
      if (slots_[slot].key == key) {
        close_gap(slot);
        --size_;
        return true;
      }
    }
  }

  void clear() {
    size_ = 0;
    slots_.clear();
    rehash(16);
  }

  template <typename Visit>
  void for_each(Visit&& visit) const {
    for (const Slot& slot : slots_) {
      if (slot.key != kEmpty) visit(slot.key, slot.value);
    }
  }

 private:
  struct Slot {
    std::uint64_t key = kEmpty;
    Value value{};
  };

  [[nodiscard]] std::size_t home(std::uint64_t key) const {
    return static_cast<std::size_t>((key * 0x9E3779B97F4A7C15ULL) >> shift_);
  }

  // Moves later entries of the same probe run back, so that find() may stop at the first empty
  // slot.
  void close_gap(std::size_t gap) {
    for (std::size_t slot = (gap + 1) & mask_; slots_[slot].key != kEmpty;
         slot = (slot + 1) & mask_) {
      const std::size_t distance_from_home = (slot - home(slots_[slot].key)) & mask_;
      if (distance_from_home >= ((slot - gap) & mask_)) {
        slots_[gap] = slots_[slot];
        gap = slot;
      }
    }
    slots_[gap].key = kEmpty;
  }

  void rehash(std::size_t capacity) {
    std::vector<Slot> old(capacity);
    old.swap(slots_);
    mask_ = capacity - 1;
    shift_ = 64;
    for (std::size_t rest = capacity; rest > 1; rest /= 2) --shift_;
    size_ = 0;
    for (const Slot& slot : old) {
      if (slot.key != kEmpty) find_or_insert(slot.key, slot.value);
    }
  }

  std::vector<Slot> slots_;
  std::size_t mask_ = 0;
  unsigned shift_ = 64;
  std::size_t size_ = 0;
};

}  // namespace gpumemprof
