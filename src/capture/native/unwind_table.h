// UnwindTable: the unwind rules of the return addresses that were met so far, shared by all
// threads.
//
// Lock-free and of a fixed size: an address that finds no room takes the place of another. Rules
// are of one generation of modules; those of earlier ones are ignored, since another module may be
// at the same addresses.
#pragma once

#include <sys/mman.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <new>

#include "capture/native/unwind_rows.h"

namespace gpumemprof::capture {

class UnwindTable {
 public:
  UnwindTable() {
    prepare_unwind_rows();
    void* memory = ::mmap(nullptr, kEntries * sizeof(Entry), PROT_READ | PROT_WRITE,
                          MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) throw std::bad_alloc();
    entries_ = static_cast<Entry*>(memory);
  }
  UnwindTable(const UnwindTable&) = delete;
  UnwindTable& operator=(const UnwindTable&) = delete;
  ~UnwindTable() { ::munmap(entries_, kEntries * sizeof(Entry)); }

  [[gnu::always_inline]] UnwindRule find(std::uintptr_t address) {
    const std::uint64_t key = key_of(address);
    Entry& entry = entries_[place_of(key)];
    if (entry.key.load(std::memory_order_acquire) == key) [[likely]] {
      const std::uint64_t word = entry.rule.load(std::memory_order_acquire);
      // Unchanged: the rule was not being replaced meanwhile.
      if (entry.key.load(std::memory_order_relaxed) == key) [[likely]]
        return UnwindRule::unpacked(word);
    }
    return find_elsewhere(address, key);
  }

  // A module was unloaded.
  void begin_generation() { generation_.fetch_add(1, std::memory_order_relaxed); }

 private:
  struct Entry {
    std::atomic<std::uint64_t> key;  // 0: empty; kBusy: being written
    std::atomic<std::uint64_t> rule;
  };
  static constexpr unsigned kBits = 16;
  static constexpr std::size_t kEntries = std::size_t{1} << kBits;
  static constexpr std::size_t kNeighbours = 4;  // a cache line of them
  static constexpr std::uint64_t kBusy = 1;

  // Addresses of programs have 47 bits.
  [[nodiscard]] std::uint64_t key_of(std::uintptr_t address) const {
    const std::uint64_t generation = generation_.load(std::memory_order_relaxed);
    return address ^ (generation << 48U);
  }
  static std::size_t place_of(std::uint64_t key) {
    return (key * 0x9E3779B97F4A7C15ULL) >> (64 - kBits);
  }

  [[gnu::noinline]] UnwindRule find_elsewhere(std::uintptr_t address, std::uint64_t key) {
    const std::size_t place = place_of(key);
    for (std::size_t step = 1; step < kNeighbours; ++step) {
      Entry& entry = entries_[place ^ step];
      if (entry.key.load(std::memory_order_acquire) != key) continue;
      const std::uint64_t word = entry.rule.load(std::memory_order_acquire);
      if (entry.key.load(std::memory_order_relaxed) == key) return UnwindRule::unpacked(word);
    }
    const UnwindRule rule = read_unwind_rule(address);
    for (std::size_t step = 0; step < kNeighbours; ++step) {
      if (entries_[place ^ step].key.load(std::memory_order_relaxed) != 0) continue;
      if (write(entries_[place ^ step], 0, key, rule)) return rule;
    }
    Entry& replaced = entries_[place ^ ((key >> 4U) % kNeighbours)];
    const std::uint64_t before = replaced.key.load(std::memory_order_relaxed);
    if (before != kBusy) write(replaced, before, key, rule);
    return rule;
  }

  static bool write(Entry& entry, std::uint64_t before, std::uint64_t key, const UnwindRule& rule) {
    if (!entry.key.compare_exchange_strong(before, kBusy, std::memory_order_relaxed)) return false;
    // Releases: whoever reads this rule sees that the key is no longer the one before.
    entry.rule.store(rule.packed(), std::memory_order_release);
    entry.key.store(key, std::memory_order_release);
    return true;
  }

  Entry* entries_ = nullptr;
  std::atomic<std::uint64_t> generation_{0};
};

}  // namespace gpumemprof::capture
