#include "capture/stream/losses.h"

#include <sys/mman.h>

#include <algorithm>
#include <mutex>
#include <new>
#include <utility>

namespace gpumemprof::capture {
namespace {

constexpr std::size_t kTableRows = std::size_t{1} << 18;
constexpr std::size_t kMostEntries = std::size_t{1} << 20;
// Kept free for runs: they must always fit.
constexpr std::size_t kRunEntries = 4096;
constexpr auto kTableMemory = SizeTable::Reserve::with_first_row;

// Two halves; pages become resident as they are used.
LossEntry* map_entries(std::size_t in_each_half) {
  void* memory = ::mmap(nullptr, 2 * in_each_half * sizeof(LossEntry), PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  return memory == MAP_FAILED ? nullptr : static_cast<LossEntry*>(memory);
}

void unmap_entries(LossEntry* entries, std::size_t in_each_half) {
  if (entries != nullptr) ::munmap(entries, 2 * in_each_half * sizeof(LossEntry));
}

}  // namespace

Losses::Losses(const Ring& ring, std::atomic<bool>& is_on)
    : ring_(ring),
      is_on_(is_on),
      lost_now_(std::make_unique<SizeTable>(kTableRows, kTableMemory)),
      lost_before_(std::make_unique<SizeTable>(kTableRows, kTableMemory)),
      sent_(kTableRows, kTableMemory),
      few_(map_entries(kRunEntries)),
      entries_(few_),
      spare_(few_ + kRunEntries),
      most_entries_(kRunEntries) {
  if (few_ == nullptr) throw std::bad_alloc();
}

Losses::~Losses() {
  unmap_entries(few_, kRunEntries);
  unmap_entries(many_, kMostEntries);
}

void Losses::make_room() {
  many_ = map_entries(kMostEntries);
  if (many_ == nullptr) return;  // Frees are counted from here on, and not placed.
  entries_ = many_;
  spare_ = many_ + kMostEntries;
  most_entries_ = kMostEntries;
}

LossEntry& Losses::log(LossEntry entry) {
  entry.position = last_position_ = ring_.head();
  LossEntry& logged = entries_[entry_count_++];
  logged = entry;
  logged_.fetch_add(1, std::memory_order_relaxed);
  return logged;
}

LossEntry& Losses::run_of(DeviceSlot device, Epoch epoch, std::uint64_t ticks) {
  last_position_ = ring_.head();
  std::uint32_t& open = open_run_[device];
  // There is always room for another, unless a program opens thousands of recordings between two
  // passes of the drain; then runs of different epochs are merged.
  const bool is_full = entry_count_ == most_entries_;
  if (open != 0 && (entries_[open - 1].epoch == epoch || is_full)) return entries_[open - 1];
  if (is_full) --entry_count_;
  LossEntry run;
  run.device = device;
  run.epoch = epoch;
  run.first_ticks = ticks;
  open = static_cast<std::uint32_t>(entry_count_ + 1);
  return log(run);
}

void Losses::count(DeviceSlot device, Epoch epoch, Action action, std::uint64_t ticks) {
  LossEntry& run = run_of(device, epoch, ticks);
  run.lost.add(action);
  run.first_ticks = std::min(run.first_ticks, ticks);
  run.last_ticks = std::max(run.last_ticks, ticks);
}

bool Losses::log_free(const EventRecord& event) {
  if (entry_count_ + kRunEntries >= most_entries_) return false;
  LossEntry late;
  late.device = event.device;
  late.address = event.address;
  late.first_ticks = late.last_ticks = event.ticks;
  log(late);
  return true;
}

void Losses::lose(const EventRecord& event, bool was_sent) {
  const auto action = static_cast<Action>(event.action);
  if (action == Action::snapshot) return;  // our own request, not the program's
  const std::lock_guard lock(lock_);
  is_on_.store(true, std::memory_order_release);
  if (!has_begun_) make_room();
  has_begun_ = true;
  if (event.device != kCpuSlot) return count(event.device, epoch_, action, event.ticks);
  if (action != Action::alloc) {
    if (log_free(event)) return;
    if (was_sent) return count(event.device, epoch_, action, event.ticks);
    undecided_.fetch_add(1, std::memory_order_relaxed);
    return;
  }
  count(event.device, epoch_, action, event.ticks);
  std::uint64_t before = 0;
  lost_now_->take(event.address, before);  // freed by a call that is not redirected to us
  if (!lost_now_->insert(event.address, epoch_)) undecided_.fetch_add(1, std::memory_order_relaxed);
}

void Losses::note_sent(std::uint64_t address) {
  const std::lock_guard lock(lock_);
  if (!is_on_.load(std::memory_order_relaxed)) return;
  std::uint64_t before = 0;
  sent_.take(address, before);
  sent_.insert(address, 1);  // if it does not fit, the drain decides
}

Losses::Fate Losses::freeing(const EventRecord& event) {
  const std::lock_guard lock(lock_);
  std::uint64_t value = 0;
  if (sent_.take(event.address, value)) return Fate::was_sent;
  if (!lost_now_->take(event.address, value)) return Fate::unknown;
  count(event.device, static_cast<Epoch>(value), Action::free_requested, event.ticks);
  return Fate::lost_with_its_allocation;
}

void Losses::collect(std::vector<LossEntry>& entries) {
  std::size_t count = 0;
  const LossEntry* filled = nullptr;
  {
    const std::lock_guard lock(lock_);
    std::swap(entries_, spare_);
    filled = spare_;
    count = std::exchange(entry_count_, 0);
    open_run_.fill(0);
  }
  entries.insert(entries.end(), filled, filled + count);
}

bool Losses::find_lost(std::uint64_t address, Epoch& epoch) {
  const std::lock_guard lock(lock_);
  std::uint64_t value = 0;
  if (!lost_before_->take(address, value)) return false;
  epoch = static_cast<Epoch>(value);
  has_lost_memory_.store(lost_before_->size() != 0, std::memory_order_relaxed);
  return true;
}

void Losses::end_if_over(std::uint64_t tail) {
  const std::lock_guard lock(lock_);
  if (entry_count_ != 0 || last_position_ > tail) return;
  is_on_.store(false, std::memory_order_release);
  if (sent_.size() != 0) sent_.clear();
  if (lost_before_->size() == 0) {
    lost_before_.swap(lost_now_);
  } else if (lost_now_->size() != 0) {
    lost_now_->for_each([&](std::uint64_t address, std::uint64_t epoch) {
      std::uint64_t before = 0;
      lost_before_->take(address, before);  // its free has come through the ring, or never will
      if (!lost_before_->insert(address, epoch)) undecided_.fetch_add(1, std::memory_order_relaxed);
    });
    lost_now_->clear();
  }
  has_lost_memory_.store(lost_before_->size() != 0, std::memory_order_relaxed);
}

Epoch Losses::next_epoch() {
  const std::lock_guard lock(lock_);
  open_run_.fill(0);
  return ++epoch_;
}

std::uint64_t Losses::seal() {
  // Commands come with every step of a program, losses almost never.
  if (!is_on_.load(std::memory_order_acquire)) return logged_.load(std::memory_order_relaxed);
  const std::lock_guard lock(lock_);
  open_run_.fill(0);
  return logged_.load(std::memory_order_relaxed);
}

}  // namespace gpumemprof::capture
