// Losses: what happened to the events that found the ring full, so that every event is either in
// the file or counted as lost.
//
// CUDA events are only counted. CPU memory needs more: libc10 also frees memory that is not a
// tensor's, and only the allocation shows whether a free is a tensor's. So while events are being
// lost, callbacks note in a table what they allocate:
//
//   its allocation was lost   → the free is lost with it, and counted here
//   its allocation was sent   → the free is sent too, through the log below if the ring is full
//   neither                   → the same; the drain knows whether the memory is a tensor's
//
// The log holds, in order, runs of lost events and the frees that found the ring full, each with
// the position in the ring before which it happened. In practice it cannot exceed its bound (each
// late free is that of a recorded allocation); if it would, the counts are marked inexact.
//
// Everything except is_on() is behind a spin lock, held for a few dozen instructions. Nothing here
// is touched while the ring has room.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <vector>

#include "capture/ledger/size_table.h"
#include "capture/ledger/spin_lock.h"
#include "capture/record.h"
#include "capture/stream/ring.h"
#include "event/recording.h"

namespace gpumemprof::capture {

struct LossEntry {
  std::uint64_t position = 0;  // in the ring: before the record there
  std::uint64_t first_ticks = 0;
  std::uint64_t last_ticks = 0;
  std::uint64_t address = 0;  // of a late free; 0: a run of lost events
  EventCounts lost;
  Epoch epoch = 0;
  DeviceSlot device = 0;
};

class Losses {
 public:
  // The flag is set from the first loss until the drain has caught up.
  Losses(const Ring& ring, std::atomic<bool>& is_on);
  Losses(const Losses&) = delete;
  Losses& operator=(const Losses&) = delete;
  ~Losses();

  // For callbacks. `was_sent`: its allocation is known to be in the ring or the file.
  void lose(const EventRecord& event, bool was_sent);
  // A CPU allocation was pushed to the ring while events are being lost.
  void note_sent(std::uint64_t address);
  enum class Fate : std::uint8_t { lost_with_its_allocation, was_sent, unknown };
  // What is known about the CPU memory that is about to be freed.
  Fate freeing(const EventRecord& event);

  // For the drain.
  [[nodiscard]] std::uint64_t logged() const { return logged_.load(std::memory_order_relaxed); }
  // Moves out what was logged; what comes later begins a new run.
  void collect(std::vector<LossEntry>& entries);
  // Removes the memory at this address if its allocation was lost in an earlier loss period; false:
  // there is none. The epoch is that of the allocation.
  bool take_lost(std::uint64_t address, Epoch& epoch) {
    return has_lost_memory_.load(std::memory_order_relaxed) && find_lost(address, epoch);
  }
  // Ends the loss period once everything lost is before `tail`.
  void end_if_over(std::uint64_t tail);

  // A recording begins.
  Epoch next_epoch();
  // Ends the open runs: what is lost after a command is not added to what was lost before it.
  // Returns how many entries have been logged so far.
  std::uint64_t seal();
  // Events for which it is unknown whether they were lost.
  [[nodiscard]] std::uint64_t undecided() const {
    return undecided_.load(std::memory_order_relaxed);
  }

 private:
  bool find_lost(std::uint64_t address, Epoch& epoch);
  void count(DeviceSlot device, Epoch epoch, Action action, std::uint64_t ticks);
  LossEntry& run_of(DeviceSlot device, Epoch epoch, std::uint64_t ticks);
  bool log_free(const EventRecord& event);
  LossEntry& log(LossEntry entry);
  // With the first loss.
  void make_room();

  const Ring& ring_;
  std::atomic<bool>& is_on_;
  std::atomic<std::uint64_t> logged_{0};
  std::atomic<std::uint64_t> undecided_{0};
  std::atomic<bool> has_lost_memory_{false};
  SpinLock lock_;  // guards all that follows
  // CPU memory whose allocation was lost, and in which epoch: in the current loss period, used only
  // by callbacks, and in earlier ones, used only by the drain. Memory whose allocation was lost
  // some time ago may have been freed and allocated again, with those records still in the ring;
  // the drain sees them in order.
  std::unique_ptr<SizeTable> lost_now_;
  std::unique_ptr<SizeTable> lost_before_;
  SizeTable sent_;             // CPU memory whose allocation was sent while events were being lost
  LossEntry* few_ = nullptr;   // room until the first loss, and after it if there is no other
  LossEntry* many_ = nullptr;  // most programs lose nothing, and never have it
  LossEntry* entries_ = nullptr;  // being filled: half of either
  LossEntry* spare_ = nullptr;    // the other half: being copied by the drain, or empty
  std::size_t most_entries_ = 0;
  bool has_begun_ = false;
  std::size_t entry_count_ = 0;
  std::array<std::uint32_t, kDeviceSlots> open_run_{};  // its row plus one; 0: none
  std::uint64_t last_position_ = 0;
  Epoch epoch_ = 0;
};

}  // namespace gpumemprof::capture
