#include "capture/ledger/ledger.h"

#include <pthread.h>

#include <algorithm>
#include <array>
#include <memory>
#include <mutex>
#include <utility>

#include "capture/device_slot.h"
#include "capture/ticks.h"

namespace gpumemprof::capture {
namespace {

// Live CPU tensors, and CUDA blocks waiting for a stream; memory is reserved, not committed.
constexpr std::size_t kCpuRows = 1U << 20;
constexpr std::size_t kPendingRows = 1U << 16;

// What this thread did, on each device. Trivial type: construction and destruction need no run-time
// support.
thread_local std::array<Turnover, kDeviceSlots> t_own;

struct Counted {
  std::unique_ptr<Ledger> ledger;  // never destroyed once created: callbacks may hold it
  int users = 0;
};
std::mutex& registry_mutex() {
  static std::mutex mutex;
  return mutex;
}
std::array<Counted, kDeviceSlots>& registry() {
  static auto& ledgers = *new std::array<Counted, kDeviceSlots>();
  return ledgers;
}

std::uint64_t this_thread() { return static_cast<std::uint64_t>(::pthread_self()); }

void hold_all() {
  registry_mutex().lock();
  for (Counted& counted : registry())
    if (counted.ledger != nullptr) counted.ledger->hold();
}

void release_all() {
  for (Counted& counted : registry())
    if (counted.ledger != nullptr) counted.ledger->release();
  registry_mutex().unlock();
}

void watch_forks() {
  static const int kWatched = ::pthread_atfork(hold_all, release_all, release_all);
  static_cast<void>(kWatched);
}

}  // namespace

Turnover Turnover::operator-(const Turnover& earlier) const {
  return {allocated_bytes - earlier.allocated_bytes, freed_bytes - earlier.freed_bytes,
          allocations - earlier.allocations, frees - earlier.frees};
}

void Ledger::count(std::uint64_t allocated_bytes, std::uint64_t freed_bytes) {
  for (Turnover* turnover : {&turnover_, &t_own[slot_]}) {
    turnover->allocated_bytes += allocated_bytes;
    turnover->freed_bytes += freed_bytes;
    turnover->allocations += allocated_bytes > 0 ? 1 : 0;
    turnover->frees += freed_bytes > 0 ? 1 : 0;
  }
}

void Ledger::set_active() {
  now_.active_bytes = knows_pending_ ? now_.allocated_bytes + pending_bytes_ : kUnknownBytes;
}

// The newest interval sees every event; the others inherit from it when it closes.
void Ledger::after_event() {
  ++version_;
  now_.most_allocated_bytes = std::max(now_.most_allocated_bytes, now_.allocated_bytes);
  now_.most_reserved_bytes = std::max(now_.most_reserved_bytes, now_.reserved_bytes);
  if (newest_ != nullptr && now_.allocated_bytes > newest_->peak.allocated_bytes)
    newest_->peak = stamped();
}

LedgerState Ledger::stamped() const {
  LedgerState moment = now_;
  moment.ticks = read_ticks();
  return moment;
}

void Ledger::on_alloc(std::uint64_t address, std::uint64_t size_bytes) {
  const std::lock_guard lock(lock_);
  std::uint64_t unseen_bytes = 0;
  if (table_.take(address, unseen_bytes)) {
    // It was freed by a call that is not redirected to us.
    now_.allocated_bytes -= unseen_bytes;
    count(0, unseen_bytes);
  }
  if (!table_.insert(address, size_bytes)) {
    ++uncounted_;
    return;
  }
  now_.allocated_bytes += size_bytes;
  now_.active_bytes = now_.reserved_bytes = now_.allocated_bytes;
  count(size_bytes, 0);
  after_event();
}

void Ledger::on_free(std::uint64_t address) {
  const std::lock_guard lock(lock_);
  std::uint64_t size_bytes = 0;
  if (!table_.take(address, size_bytes)) return;
  now_.allocated_bytes -= size_bytes;
  now_.active_bytes = now_.reserved_bytes = now_.allocated_bytes;
  count(0, size_bytes);
  after_event();
}

void Ledger::on_report(std::uint64_t address, std::int64_t change_bytes,
                       std::uint64_t allocated_bytes, std::uint64_t reserved_bytes) {
  const std::lock_guard lock(lock_);
  now_.allocated_bytes = allocated_bytes;
  now_.reserved_bytes = reserved_bytes;
  knows_totals_ = true;
  drop_stale(address);
  const std::uint64_t completed_early = std::exchange(completed_early_, 0);
  // A completion not followed by its free belongs to a block from before counting began.
  if (completed_early != 0 && (change_bytes >= 0 || completed_early != address))
    knows_pending_ = false;
  if (change_bytes >= 0) {
    count(static_cast<std::uint64_t>(change_bytes), 0);
  } else {
    const auto freed_bytes = static_cast<std::uint64_t>(-change_bytes);
    count(0, freed_bytes);
    if (completed_early != address && follows_completions_) {
      if (table_.insert(address, freed_bytes))
        pending_bytes_ += freed_bytes;
      else
        knows_pending_ = false;
    }
  }
  set_active();
  after_event();
}

// A block that is allocated or freed is not waiting for a stream: its completion was missed.
void Ledger::drop_stale(std::uint64_t address) {
  std::uint64_t size_bytes = 0;
  if (table_.size() > 0 && table_.take(address, size_bytes)) pending_bytes_ -= size_bytes;
}

void Ledger::on_free_completed(std::uint64_t address) {
  const std::lock_guard lock(lock_);
  if (!follows_completions_) return;
  std::uint64_t size_bytes = 0;
  if (table_.take(address, size_bytes)) {
    pending_bytes_ -= size_bytes;
  } else {
    if (completed_early_ != 0) knows_pending_ = false;
    completed_early_ = address;
  }
  set_active();
  ++version_;
}

void Ledger::on_reserved_change(std::int64_t change_bytes) {
  const std::lock_guard lock(lock_);
  if (!knows_totals_) return;
  now_.reserved_bytes += static_cast<std::uint64_t>(change_bytes);
  after_event();
}

void Ledger::forget() {
  table_.clear();
  now_ = {};
  turnover_ = {};
  pending_bytes_ = completed_early_ = uncounted_ = 0;
  newest_ = nullptr;
  ++epoch_;
  ++version_;
}

void Ledger::start_from_nothing() {
  const std::lock_guard lock(lock_);
  forget();
  knows_totals_ = knows_pending_ = true;
}

void Ledger::start_unknown(bool follows_completions) {
  const std::lock_guard lock(lock_);
  forget();
  follows_completions_ = follows_completions;
  knows_totals_ = knows_pending_ = false;
}

bool Ledger::settle(std::uint64_t version, const StartState& state) {
  const std::lock_guard lock(lock_);
  // Peak values only rise, so they are right whatever happened since.
  now_.most_allocated_bytes = std::max(now_.most_allocated_bytes, state.most_allocated_bytes);
  now_.most_reserved_bytes = std::max(now_.most_reserved_bytes, state.most_reserved_bytes);
  if (version_ != version) return false;
  now_.allocated_bytes = state.allocated_bytes;
  now_.reserved_bytes = state.reserved_bytes;
  table_.clear();
  pending_bytes_ = completed_early_ = 0;
  knows_totals_ = true;
  knows_pending_ = follows_completions_;
  for (const auto& [address, size_bytes] : state.pending) {
    knows_pending_ = knows_pending_ && table_.insert(address, size_bytes);
    pending_bytes_ += size_bytes;
  }
  set_active();
  return true;
}

std::uint64_t Ledger::version() {
  const std::lock_guard lock(lock_);
  return version_;
}

bool Ledger::knows_totals() {
  const std::lock_guard lock(lock_);
  return knows_totals_;
}

bool Ledger::knows_active() {
  const std::lock_guard lock(lock_);
  return knows_pending_;
}

LedgerState Ledger::now() {
  const std::lock_guard lock(lock_);
  return stamped();
}

Turnover Ledger::turnover() {
  const std::lock_guard lock(lock_);
  return turnover_;
}

std::uint64_t Ledger::uncounted() {
  const std::lock_guard lock(lock_);
  return uncounted_;
}

void Ledger::link(OpenScope& scope) {
  scope.before = scope.peak = stamped();
  scope.turnover_before = turnover_;
  scope.own_before = t_own[slot_];
  scope.uncounted_before = uncounted_;
  scope.thread = this_thread();
  scope.epoch = epoch_;
  scope.older = newest_;
  scope.newer = nullptr;
  if (newest_ != nullptr) newest_->newer = &scope;
  newest_ = &scope;
}

ScopeReading Ledger::read(OpenScope& scope) {
  ScopeReading reading;
  reading.before = scope.before;
  reading.after = stamped();
  reading.peak = scope.peak;
  for (const OpenScope* later = scope.newer; later != nullptr; later = later->newer) {
    if (later->peak.allocated_bytes > reading.peak.allocated_bytes) reading.peak = later->peak;
  }
  reading.turnover = turnover_ - scope.turnover_before;
  if (scope.thread == this_thread()) reading.own = t_own[slot_] - scope.own_before;
  reading.uncounted = uncounted_ - scope.uncounted_before;
  return reading;
}

void Ledger::unlink(OpenScope& scope) {
  OpenScope* older = scope.older;
  if (older != nullptr) {
    if (scope.peak.allocated_bytes > older->peak.allocated_bytes) older->peak = scope.peak;
    older->newer = scope.newer;
  }
  (scope.newer != nullptr ? scope.newer->older : newest_) = older;
  scope.epoch = 0;
}

void Ledger::open(OpenScope& scope) {
  const std::lock_guard lock(lock_);
  link(scope);
}

std::optional<ScopeReading> Ledger::close(OpenScope& scope) {
  const std::lock_guard lock(lock_);
  if (scope.epoch != epoch_) return std::nullopt;
  const ScopeReading reading = read(scope);
  unlink(scope);
  return reading;
}

std::optional<ScopeReading> Ledger::turn_over(OpenScope& scope) {
  const std::lock_guard lock(lock_);
  if (scope.epoch != epoch_) {
    link(scope);
    return std::nullopt;
  }
  const ScopeReading reading = read(scope);
  unlink(scope);
  link(scope);
  return reading;
}

bool start_counting(DeviceSlot slot, bool follows_completions) {
  watch_forks();
  const std::lock_guard lock(registry_mutex());
  Counted& counted = registry()[slot];
  if (counted.users++ > 0) return false;
  if (counted.ledger == nullptr)
    counted.ledger = std::make_unique<Ledger>(slot, slot == kCpuSlot ? kCpuRows : kPendingRows);
  // It was not being counted in the meantime: what it knew is out of date.
  slot == kCpuSlot ? counted.ledger->start_from_nothing()
                   : counted.ledger->start_unknown(follows_completions);
  g_counting[slot].store(counted.ledger.get(), std::memory_order_release);
  return true;
}

void stop_counting(DeviceSlot slot) {
  const std::lock_guard lock(registry_mutex());
  Counted& counted = registry()[slot];
  if (counted.users == 0) return;
  --counted.users;
  if (counted.users > 0) return;
  g_counting[slot].store(nullptr, std::memory_order_release);
}

}  // namespace gpumemprof::capture
