// KnownStacks: the native stacks that a thread has had, each with the proof that it is there again.
//
// A walk follows from where it starts and from the words of the stack that it reads: return
// addresses, and those saved registers and frames that a later frame is found by. Nothing else goes
// into it but the walker's settings and the unwind rules, which have a number. So if a walk would
// start at the same place, with the same number, and all words that it read the last time are
// unchanged, it would find the same stack, and need not be done. The words are compared one by one,
// without looking up a rule: their places are known beforehand, so no load waits for another.
//
// Which stack to compare with is a guess: the one that came after the last event's stack the last
// two times. Training repeats itself, so it is nearly always right; otherwise the stack is walked.
//
// Owned by its thread. Lives in memory that the system hands out zeroed and only when it is
// touched: all zeros is empty.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "capture/foreign_memory.h"

namespace gpumemprof::capture {

// A thread's number for one of its stacks; the drain knows what it stands for.
using NativeNumber = std::uint16_t;
inline constexpr NativeNumber kNoNative = 0;

// Where a walk starts, and the end of the stack it may read.
struct WalkStart {
  std::uintptr_t pc = 0;
  std::uintptr_t sp = 0;
  std::uintptr_t bp = 0;
  std::uintptr_t limit = 0;
};

// The words of the stack that a walk read, as far as its result depends on them.
class WalkProof {
 public:
  static constexpr std::size_t kMostWords = 112;

  void begin(const WalkStart& start) {
    base_ = start.sp;
    count_ = 0;
    has_failed_ = needs_bp_ = false;
    bp_ = Bp::start;
  }
  void reads(std::uintptr_t place, std::uintptr_t value) {
    const std::uintptr_t offset = (place - base_) / sizeof(std::uintptr_t);
    if (count_ == kMostWords || place < base_ || offset >= kMostOffset || value >= kMostValue)
      return fail();
    words_[count_++] = (offset << kValueBits) | value;
  }
  // bp comes from the stack. Only if it is used, the result depends on it.
  void restores_bp(std::uintptr_t place, std::uintptr_t value) {
    bp_ = Bp::restored;
    bp_place_ = place;
    bp_value_ = value;
  }
  void loses_bp() { bp_ = Bp::lost; }
  void uses_bp() {
    if (bp_ == Bp::start) needs_bp_ = true;
    if (bp_ == Bp::restored) reads(bp_place_, bp_value_);
    if (bp_ == Bp::lost) return fail();
    bp_ = Bp::proven;
  }
  // The result also depends on something else.
  void fail() { has_failed_ = true; }

  [[nodiscard]] bool has_failed() const { return has_failed_; }
  [[nodiscard]] bool needs_bp() const { return needs_bp_; }
  [[nodiscard]] std::size_t count() const { return has_failed_ ? 0 : count_; }
  [[nodiscard]] std::uint64_t word(std::size_t index) const { return words_[index]; }

  // Whether the place of a word still holds its value.
  [[gnu::always_inline]] static std::uint64_t difference(std::uint64_t word, std::uintptr_t base) {
    const std::uintptr_t place = base + (word >> kValueBits) * sizeof(std::uintptr_t);
    return read_raw<std::uintptr_t>(place) ^ (word & (kMostValue - 1));
  }

 private:
  // Addresses of programs have 47 bits; the rest is the place, in words from where the walk began.
  static constexpr unsigned kValueBits = 47;
  static constexpr std::uintptr_t kMostValue = std::uintptr_t{1} << kValueBits;
  static constexpr std::uintptr_t kMostOffset = std::uintptr_t{1} << (64 - kValueBits);
  enum class Bp : std::uint8_t { start, restored, lost, proven };

  std::uintptr_t base_ = 0;
  std::size_t count_ = 0;
  bool has_failed_ = false;
  bool needs_bp_ = false;
  Bp bp_ = Bp::start;
  std::uintptr_t bp_place_ = 0;
  std::uintptr_t bp_value_ = 0;
  std::array<std::uint64_t, kMostWords> words_{};
};

// Tells stacks apart by 64 bits: among a hundred thousand stacks, two have the same with a
// probability of some 10^-10.
class StackHash {
 public:
  explicit StackHash(const WalkStart& start) : state_(start.sp) {}
  [[gnu::always_inline]] void add(std::uintptr_t address) {
    state_ = (state_ ^ address) * kFactor;
    state_ ^= state_ >> 32U;
  }
  [[nodiscard]] std::uint64_t value() const { return state_; }

 private:
  static constexpr std::uint64_t kFactor = 0xE7037ED1A0B428DBULL;
  std::uint64_t state_;
};

// 15 cache lines: an odd number, so that stacks do not compete for the same part of a cache.
struct alignas(64) KnownStack {
  WalkStart start;
  std::uint64_t hash;
  std::uint32_t settings;            // the walker's, when it was walked
  std::uint16_t word_count;          // 0: it must be walked each time
  std::array<NativeNumber, 2> next;  // what came after it
  bool needs_bp;
  bool is_mirrored;  // the drain knows its addresses
  std::array<std::uint64_t, WalkProof::kMostWords> words;

  [[nodiscard]] [[gnu::always_inline]] bool is_at(const WalkStart& now,
                                                  std::uint32_t settings_now) const {
    return start.sp == now.sp && start.pc == now.pc && start.limit == now.limit &&
           settings == settings_now && is_mirrored && word_count != 0 &&
           (!needs_bp || start.bp == now.bp);
  }
  [[nodiscard]] [[gnu::always_inline]] bool has_same_words() const {
    constexpr std::size_t kAtOnce = 8;
    const std::uint64_t* word = words.data();
    const std::uint64_t* const end = word + word_count;
    while (static_cast<std::size_t>(end - word) >= kAtOnce) {
      std::uint64_t difference = 0;
      for (std::size_t index = 0; index < kAtOnce; ++index)
        difference |= WalkProof::difference(word[index], start.sp);
      if (difference != 0) return false;
      word += kAtOnce;
    }
    std::uint64_t difference = 0;
    for (; word != end; ++word) difference |= WalkProof::difference(*word, start.sp);
    return difference == 0;
  }
};
static_assert(sizeof(KnownStack) == 960);

class KnownStacks {
 public:
  // The stack that is expected now, if it is there.
  [[gnu::always_inline]] NativeNumber expected(const WalkStart& start, std::uint32_t settings) {
    for (const NativeNumber number : expected_) {
      const KnownStack& guess = stacks_[number];
      if (number == kNoNative || !guess.is_at(start, settings) || !guess.has_same_words()) continue;
      came(number);
      return number;
    }
    return kNoNative;
  }
  // The stack that was walked, which may be new.
  NativeNumber walked(const WalkStart& start, std::uint32_t settings, const StackHash& hash,
                      const WalkProof& proof) {
    const NativeNumber number = find_or_add(hash.value());
    KnownStack& stack = stacks_[number];
    stack.start = start;
    stack.settings = settings;
    stack.needs_bp = proof.needs_bp();
    stack.word_count = static_cast<std::uint16_t>(proof.count());
    for (std::size_t index = 0; index < proof.count(); ++index)
      stack.words[index] = proof.word(index);
    came(number);
    return number;
  }
  [[nodiscard]] KnownStack& operator[](NativeNumber number) { return stacks_[number]; }
  [[nodiscard]] const KnownStack& operator[](NativeNumber number) const { return stacks_[number]; }

 private:
  static constexpr std::size_t kMost = 2048;
  static constexpr unsigned kPlaceBits = 12;
  static constexpr std::size_t kLine = 64;
  static constexpr std::size_t kLinesAhead = 7;  // of a stack of about 48 words

  // Fetches what is expected next now: until then, the program pushes it out of the nearest caches.
  [[gnu::always_inline]] void came(NativeNumber number) {
    std::array<NativeNumber, 2>& next = stacks_[last_].next;
    if (next[0] != number) next = {number, next[0]};
    last_ = number;
    expected_ = stacks_[number].next;
    const auto* ahead = reinterpret_cast<const char*>(&stacks_[expected_[0]]);
    for (std::size_t line = 0; line < kLinesAhead; ++line)
      __builtin_prefetch(ahead + line * kLine, 0, 2);
  }
  NativeNumber find_or_add(std::uint64_t hash) {
    std::size_t place = hash >> (64 - kPlaceBits);
    for (; places_[place] != kNoNative; place = (place + 1) % places_.size())
      if (stacks_[places_[place]].hash == hash) return places_[place];
    if (count_ + 1U == kMost) {  // begins anew: the program has changed, or never repeats itself
      places_ = {};
      count_ = last_ = 0;
      place = hash >> (64 - kPlaceBits);
    }
    const auto number = static_cast<NativeNumber>(++count_);
    places_[place] = number;
    KnownStack& stack = stacks_[number];
    stack.hash = hash;
    stack.next = {};
    stack.is_mirrored = false;
    return number;
  }

  std::array<NativeNumber, 2> expected_;
  NativeNumber last_;  // kNoNative, too, has a place in stacks_, for what comes after it
  NativeNumber count_;
  std::array<NativeNumber, std::size_t{1} << kPlaceBits> places_;  // by hash
  std::array<KnownStack, kMost> stacks_;
};

}  // namespace gpumemprof::capture
