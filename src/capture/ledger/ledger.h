// Ledger: what one device's allocator holds, counted event by event as it happens, and the exact
// peak of every scope that is open.
//
// There are two ways to feed it. CUDA: torch itself reports its totals with every block it
// allocates or frees (on_report), so nothing can drift and none of the allocator's rules are
// repeated here. CPU: sizes are added up here (on_alloc, on_free), since torch does not.
//
// Peaks: open scopes form a chain in the order they were opened; each link keeps the maximum of the
// interval between its own opening and the next one's. An event looks only at the newest link. A
// scope that closes takes the maximum over its own and all later links, and leaves its own to its
// predecessor, whose interval now reaches further:
//
//   time ─────────────────────────────────────→      events        A  B  C
//   A opened        |────────────|────|───────→      go to C       m  m  m
//   B opened                     |────|───────→      peak of B = max(B, C)
//   C opened                          |───────→      B closes: A keeps max(A, B)
//
// So an event costs the same however many scopes are open, a nested scope closes in constant time,
// and one that closes out of order costs one step for each scope opened after it that is still
// open.
//
// Any thread may call. The lock is held for a few dozen instructions without a call to the system,
// to malloc or to Python, so a waiter waits only nanoseconds; callbacks of one CUDA device already
// hold torch's own lock and contend only with the opening and closing of scopes. Sizes are bytes;
// ticks are the processor's.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "capture/device_slot.h"
#include "capture/ledger/size_table.h"
#include "capture/ledger/spin_lock.h"
#include "event/event.h"

namespace gpumemprof::capture {

// The counters after one event.
struct LedgerState {
  std::uint64_t ticks = 0;
  std::uint64_t allocated_bytes = 0;
  std::uint64_t active_bytes = 0;  // kUnknownBytes if a free was not seen from its start
  std::uint64_t reserved_bytes = 0;
  std::uint64_t most_allocated_bytes = 0;  // in this process so far
  std::uint64_t most_reserved_bytes = 0;
};

// Totals since counting began; what a scope or a thread did is the difference of two.
struct Turnover {
  std::uint64_t allocated_bytes = 0;
  std::uint64_t freed_bytes = 0;
  std::uint64_t allocations = 0;
  std::uint64_t frees = 0;

  Turnover operator-(const Turnover& earlier) const;
  bool operator==(const Turnover&) const = default;
};

struct ScopeReading {
  LedgerState before;
  LedgerState peak;  // the earliest moment of peak allocated bytes
  LedgerState after;
  Turnover turnover;
  std::optional<Turnover> own;  // of the thread that opened it; none: another thread closed it
  std::uint64_t uncounted = 0;  // events of unknown size: the figures are too small
};

// A link of the chain; the code that opens a scope owns it and must not move it until it is closed.
struct OpenScope {
  OpenScope* older = nullptr;
  OpenScope* newer = nullptr;
  LedgerState before;
  LedgerState peak;  // of the interval up to the next opening
  Turnover turnover_before;
  Turnover own_before;
  std::uint64_t uncounted_before = 0;
  std::uint64_t thread = 0;
  std::uint32_t epoch = 0;  // of the ledger when it was opened; 0: not open
};

// A device's counters when counting began, as torch reports them.
struct StartState {
  std::uint64_t allocated_bytes = 0;
  std::uint64_t reserved_bytes = 0;
  std::uint64_t most_allocated_bytes = 0;
  std::uint64_t most_reserved_bytes = 0;
  // Blocks whose owner freed them while a stream still used them: (address, size).
  std::vector<std::pair<std::uint64_t, std::uint64_t>> pending;
};

class Ledger {
 public:
  // slot: index of this device in a thread's own turnovers; table_rows: a power of two.
  Ledger(DeviceSlot slot, std::size_t table_rows) : slot_(slot), table_(table_rows) {}

  // For CPU memory, in callbacks: an address is allocated, or freed (ignored if it was never seen).
  void on_alloc(std::uint64_t address, std::uint64_t size_bytes);
  void on_free(std::uint64_t address);

  // For CUDA, in callbacks, under torch's lock of the device. change: the size of the block,
  // negative when its owner frees it; the totals are torch's own after it.
  void on_report(std::uint64_t address, std::int64_t change_bytes, std::uint64_t allocated_bytes,
                 std::uint64_t reserved_bytes);
  // No stream uses a freed block any more; torch reports this before or after on_report().
  void on_free_completed(std::uint64_t address);
  void on_reserved_change(std::int64_t change_bytes);

  // Resets everything; scopes open at that point give no reading. CPU memory starts at zero.
  void start_from_nothing();
  // CUDA: the totals are known from the next on_report() on, or from settle(). If completions are
  // not reported, active bytes stay unknown.
  void start_unknown(bool follows_completions);
  // Adopts the state if nothing happened since version() was read; false: read both again.
  bool settle(std::uint64_t version, const StartState& state);
  [[nodiscard]] std::uint64_t version();
  [[nodiscard]] bool knows_totals();
  [[nodiscard]] bool knows_active();

  void open(OpenScope& scope);
  // None: counting restarted in between.
  std::optional<ScopeReading> close(OpenScope& scope);
  // Closes and opens in one step, so that no event falls between the two.
  std::optional<ScopeReading> turn_over(OpenScope& scope);
  [[nodiscard]] LedgerState now();
  [[nodiscard]] Turnover turnover();
  [[nodiscard]] std::uint64_t uncounted();

  // Around a fork, so that the child does not inherit what another thread was in the middle of
  // changing: only the thread that forks exists there.
  void hold() { lock_.lock(); }
  void release() { lock_.unlock(); }

 private:
  void after_event();
  void set_active();
  void drop_stale(std::uint64_t address);
  void count(std::uint64_t allocated_bytes, std::uint64_t freed_bytes);
  void forget();
  void link(OpenScope& scope);
  ScopeReading read(OpenScope& scope);
  void unlink(OpenScope& scope);
  [[nodiscard]] LedgerState stamped() const;

  SpinLock lock_;
  DeviceSlot slot_;
  SizeTable table_;  // CPU: live memory; CUDA: blocks waiting for a stream
  LedgerState now_;  // ticks are filled in where they are needed
  Turnover turnover_;
  std::uint64_t pending_bytes_ = 0;
  std::uint64_t completed_early_ = 0;  // on_free_completed() was called, on_report() not yet
  std::uint64_t version_ = 0;
  std::uint64_t uncounted_ = 0;
  std::uint32_t epoch_ = 1;
  bool knows_totals_ = true;
  bool knows_pending_ = true;
  bool follows_completions_ = true;
  OpenScope* newest_ = nullptr;
};

// The ledgers of this process, by device slot; nullptr: that device is not counted. A
// callback needs one load.
inline std::array<std::atomic<Ledger*>, kDeviceSlots> g_counting{};
inline Ledger* counting_ledger(DeviceSlot slot) {
  return g_counting[slot].load(std::memory_order_acquire);
}
// Starts or joins counting of a device; each start needs a stop. True: counting started afresh.
bool start_counting(DeviceSlot slot, bool follows_completions = true);
void stop_counting(DeviceSlot slot);

}  // namespace gpumemprof::capture
