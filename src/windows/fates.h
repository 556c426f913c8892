// Fates: what became of the allocations that a window leaves live, which is known only after the
// whole run was read once.
//
// Nearly all of them are freed before the next window is shown: they are the activations of a step
// that reading stopped in. Those wait in a file until their window is shown again. In memory are
// the others: they grow with the allocations that are live when two windows are shown, and freed.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "base/flat_map.h"
#include "base/spill/spill_file.h"
#include "event/event.h"

namespace gpumemprof {

struct Fate {
  std::uint64_t key = 0;                    // of the allocation: KeptRun::key_of()
  std::uint32_t free_requested = kNoEvent;  // numbers of the run
  std::uint32_t free_completed = kNoEvent;
  Event event;  // that requests the free
};

class Fates {
 public:
  // The free of an allocation that was live when the window before was shown.
  void add(const Fate& fate);
  // A window was shown when so many events had been read.
  void end_window(std::uint32_t read);

 private:
  friend class FateReader;
  // Freed between one showing and the next, and made after the one before.
  struct Chunk {
    std::uint32_t made_from = 0;    // all are made at this event or later
    std::uint32_t freed_until = 0;  // and freed before this one
    std::uint32_t count = 0;
    std::uint64_t offset = 0;
    std::vector<Fate> rows;  // that could not be written
  };

  std::unique_ptr<SpillFile> file_ = std::make_unique<SpillFile>();
  std::vector<Chunk> chunks_;  // in order
  std::vector<Fate> chunk_;    // of the window that is being read
  std::vector<Fate> long_;
  FlatMap<std::uint32_t> long_by_key_;
  std::uint32_t last_read_ = 0;
  std::uint32_t read_before_ = 0;  // the one before that
};

// For a later pass, window by window.
class FateReader {
 public:
  // They must outlive it.
  explicit FateReader(const Fates& fates) : fates_(fates) {}

  // A window is shown when so many events have been read.
  void begin_window(std::uint32_t read);
  // Of an allocation that is live then; null: it is never freed.
  [[nodiscard]] const Fate* find(std::uint64_t key) const;

 private:
  const Fates& fates_;
  std::vector<Fate> chunk_;
  FlatMap<std::uint32_t> by_key_;
};

}  // namespace gpumemprof
