// Ring: bounded, many producers, one consumer, no locks. The place a producer claims determines the
// order of its record, so events pushed under one lock come out in that lock's order.
//
//   each slot carries its turn: position p may be written when turn == p, read when turn == p + 1,
//   and is free for the next lap when turn == p + capacity
//
// Memory is mapped and touched once, up front: a page fault in a callback would cost more than all
// of its work. push() never waits, allocates or makes a system call. A process that is expected to
// allocate little touches the memory as it goes.
#pragma once

#include <sys/mman.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <new>

#include "capture/record.h"

namespace gpumemprof::capture {

class Ring {
  struct Slot {
    std::atomic<std::uint64_t> turn;
    Record record;
  };
  static_assert(sizeof(Slot) == 64);

 public:
  enum class Pages : std::uint8_t { up_front, on_demand };

  // capacity is a power of two.
  explicit Ring(std::size_t capacity, Pages pages = Pages::up_front) : capacity_(capacity) {
    const int when = pages == Pages::up_front ? MAP_POPULATE : 0;
    void* memory = ::mmap(nullptr, capacity * sizeof(Slot), PROT_READ | PROT_WRITE,
                          MAP_PRIVATE | MAP_ANONYMOUS | when, -1, 0);
    if (memory == MAP_FAILED) throw std::bad_alloc();
    slots_ = static_cast<Slot*>(memory);
  }
  Ring(const Ring&) = delete;
  Ring& operator=(const Ring&) = delete;
  ~Ring() { ::munmap(slots_, capacity_ * sizeof(Slot)); }

  // A place that was claimed and not filled yet. The consumer waits at it.
  class Place {
   public:
    Place() = default;
    explicit operator bool() const { return slot_ != nullptr; }

   private:
    friend Ring;
    Place(Slot* slot, std::uint64_t turn) : slot_(slot), turn_(turn) {}
    Slot* slot_ = nullptr;
    std::uint64_t turn_ = 0;
  };

  // The next place, which must be filled at once; none if the ring is full.
  [[gnu::always_inline]] Place claim() {
    std::uint64_t position = head_.load(std::memory_order_relaxed);
    if (turn_at(position) != position) [[unlikely]]
      return claim_slowly();
    if (!head_.compare_exchange_strong(position, position + 1, std::memory_order_relaxed))
        [[unlikely]]
      return claim_slowly();
    return won(position);
  }
  // To be written, then published; what it held before is meaningless.
  static Record& record_at(const Place& place) { return place.slot_->record; }
  static void hand_over(const Place& place) {
    place.slot_->turn.store(place.turn_, std::memory_order_release);
  }
  // False: full, nothing was written.
  bool push(const Record& record) {
    const Place place = claim();
    if (!place) return false;
    record_at(place) = record;
    hand_over(place);
    return true;
  }

  // For the consumer alone. False: empty, or the next producer has not finished writing.
  bool pop(Record& record) {
    if (turn_at(tail_) != tail_ + 1) return false;
    Slot& slot = at(tail_);
    record = slot.record;
    slot.turn.store(tail_ + capacity_ - index(tail_), std::memory_order_release);
    ++tail_;
    return true;
  }

  // How many records were ever pushed; a push that began before this call may still be in progress
  // below it.
  [[nodiscard]] std::uint64_t head() const { return head_.load(std::memory_order_acquire); }
  // How many were ever popped; for the consumer alone.
  [[nodiscard]] std::uint64_t tail() const { return tail_; }

 private:
  static constexpr std::size_t kSlotsAhead = 8;

  static void fetch_to_write(const Slot* slot) {
#if defined(__x86_64__)
    // Compilers emit this instruction only when targeting newer processors; older ones ignore it.
    asm volatile("prefetchw %0" : : "m"(*slot));
#else
    __builtin_prefetch(slot, 1);
#endif
  }

  // Another producer was faster, or the ring is full.
  [[gnu::noinline]] Place claim_slowly() {
    std::uint64_t position = head_.load(std::memory_order_relaxed);
    for (;;) {
      const std::uint64_t turn = turn_at(position);
      if (turn < position) return {};
      if (turn > position) {
        position = head_.load(std::memory_order_relaxed);
      } else if (head_.compare_exchange_weak(position, position + 1, std::memory_order_relaxed)) {
        return won(position);
      }
    }
  }
  Place won(std::uint64_t position) {
    // The ring is larger than the caches: prefetching a slot avoids waiting for it later.
    fetch_to_write(&at(position + kSlotsAhead));
    return {&at(position), position + 1 - index(position)};
  }

  [[nodiscard]] std::size_t index(std::uint64_t position) const {
    return position & (capacity_ - 1);
  }
  // A fresh page reads as zero, which is why a turn is stored as its distance from the slot's
  // index.
  [[nodiscard]] std::uint64_t turn_at(std::uint64_t position) const {
    return at(position).turn.load(std::memory_order_acquire) + index(position);
  }
  [[nodiscard]] Slot& at(std::uint64_t position) const { return slots_[index(position)]; }

  // What a producer needs, in one cache line.
  alignas(64) std::atomic<std::uint64_t> head_{0};
  std::size_t capacity_;
  Slot* slots_ = nullptr;
  alignas(64) std::uint64_t tail_ = 0;
};

}  // namespace gpumemprof::capture
