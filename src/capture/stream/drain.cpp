#include "capture/stream/drain.h"

#include <algorithm>
#include <chrono>
#include <csignal>
#include <exception>
#include <string>
#include <utility>

#include "capture/stream/detached.h"
#include "capture/ticks.h"

namespace gpumemprof::capture {
namespace {

using std::chrono::steady_clock;

// Often enough that the ring stays far from full at any rate torch can reach, rarely enough not to
// be noticed.
constexpr auto kPause = std::chrono::milliseconds(20);
// How much a killed process loses.
constexpr auto kFlushEvery = std::chrono::milliseconds(400);
constexpr auto kSampleEvery = std::chrono::seconds(1);
// Main memory can be used up within seconds.
constexpr auto kHostEvery = std::chrono::milliseconds(250);
// After the pool grew or shrank; a program that starts up grows in many small steps.
constexpr auto kSampleSoon = std::chrono::milliseconds(50);
// So that flushes happen on time while records keep coming.
constexpr std::uint64_t kMostRecordsAtOnce = 1U << 17;
// No command is waiting for a record.
constexpr std::uint64_t kNowhere = ~std::uint64_t{0};

}  // namespace

void Drain::submit(Command command) {
  const std::lock_guard lock(mutex_);
  enqueue(std::move(command));
  wakes_.notify_one();
}

void Drain::submit_deferred(Command command) {
  const std::lock_guard lock(mutex_);
  enqueue(std::move(command));
}

void Drain::enqueue(Command command) {
  const std::uint64_t losses = emitter_.losses().seal();
  commands_.push_back({ring_.head(), losses, std::move(command)});
}

Status Drain::start_thread() {
  if (thread_.is_running()) return Done{};
  is_stopping_ = false;
  return thread_.start("gpumemprof", [this] { run(); });
}

void Drain::stop_thread() {
  if (!thread_.is_running()) return;
  {
    const std::lock_guard lock(mutex_);
    is_stopping_ = true;
    wakes_.notify_one();
  }
  thread_.join();
}

void Drain::run() {
  for (;;) {
    bool was_busy = false;
    try {
      if (const char* signal = closes_for_.load(std::memory_order_acquire); signal != nullptr)
        return close_for(signal);
      was_busy = pump();
      run_periodic();
    } catch (const std::exception& failure) {
      // Our problem, not the program's: the recordings end here, the program goes on.
      outputs_.give_up(failure.what());
    }
    std::unique_lock lock(mutex_);
    if (is_stopping_ && commands_.empty()) return;
    if (!was_busy && commands_.empty()) wakes_.wait_for(lock, kPause);
  }
}

void Drain::close_for(const char* signal_name) {
  // If this fails in its turn, as it may after a crash, the process is to end by the first signal.
  sigset_t crashes;
  ::sigemptyset(&crashes);
  for (const int number : {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT}) ::sigaddset(&crashes, number);
  ::pthread_sigmask(SIG_UNBLOCK, &crashes, nullptr);
  const auto taken = [this] {
    const std::lock_guard lock(mutex_);
    return std::pair(ring_.tail(), commands_.size());
  };
  // Other threads may go on for as long as they like; the interrupted one may be in the middle of a
  // record.
  const std::uint64_t end = ring_.head();
  for (auto before = taken(); ring_.tail() <= end; before = taken()) {
    pump();
    if (taken() == before) break;
  }
  const std::uint64_t events =
      outputs_.close_all(std::string("signal ") + signal_name, undecided_losses());
  closed_.store(events > 0 ? Closed::with_events : Closed::empty, std::memory_order_release);
}

std::optional<Drain::Pending> Drain::next_command(std::uint64_t& position) {
  const std::lock_guard lock(mutex_);
  if (commands_.empty()) return std::nullopt;
  position = commands_.front().position;
  if (ring_.tail() < position) return std::nullopt;
  Pending command = std::move(commands_.front());
  commands_.pop_front();
  return command;
}

bool Drain::pump() {
  // Read before looking at the commands: one submitted later has this position or a later one, so
  // no record that came after it is taken before it, however fast they come.
  const std::uint64_t most = std::min(ring_.head(), ring_.tail() + kMostRecordsAtOnce);
  std::uint64_t position = kNowhere;
  if (const std::optional<Pending> next = next_command(position)) {
    while (const std::optional<LossEntry> entry = losses_.next_of_first(next->losses))
      interpreter_.take(*entry);
    next->command(*this);
    return true;
  }
  const bool has_command = position != kNowhere;
  const std::uint64_t taken = pump_until(std::min(position, most));
  if (!has_command && emitter_.is_losing()) catch_up_with_losses();
  return taken == kMostRecordsAtOnce || has_command;
}

std::uint64_t Drain::pump_until(std::uint64_t position) {
  const std::uint64_t before = ring_.tail();
  Record record;
  while (ring_.tail() < position && ring_.pop(record)) {
    // A free that came through the log must be taken before the address is used again.
    losses_.collect();
    while (const std::optional<LossEntry> entry = losses_.next_before(ring_.tail() - 1))
      interpreter_.take(*entry);
    interpreter_.take(record);
  }
  return ring_.tail() - before;
}

// There may be nothing left to take but what was lost.
void Drain::catch_up_with_losses() {
  losses_.collect();
  while (const std::optional<LossEntry> entry = losses_.next_before(ring_.tail()))
    interpreter_.take(*entry);
  if (losses_.empty()) emitter_.losses().end_if_over(ring_.tail());
}

void Drain::run_periodic() {
  const auto now = steady_clock::now();
  if (interpreter_.stacks().forget_unloaded()) emitter_.forget_native_modules();
  if (now - last_sample_ >= (interpreter_.has_pool_changed() ? kSampleSoon : kSampleEvery))
    sample_in_order();
  if (now - last_host_look_ >= kHostEvery) watch_host_memory();
  if (now - last_facts_ >= kSampleEvery) {
    last_facts_ = now;
    write_sourced_facts(false);
  }
  if (!later_.empty()) start_what_is_due();
  if (call_ != nullptr && ring_.tail() >= call_at_) std::exchange(call_, nullptr)();
  if (now - last_flush_ < kFlushEvery) return;
  last_flush_ = now;
  interpreter_.clock().anchor();
  outputs_.flush();
}

std::vector<DeviceSample> Drain::query_cards() {
  last_sample_ = steady_clock::now();
  interpreter_.reset_pool_change();
  std::vector<DeviceSample> samples = cards_.sample();
  for (DeviceSample& sample : samples) sample.time_ns = interpreter_.clock().unix_ns(read_ticks());
  return samples;
}

void Drain::write_sourced_facts(bool is_asked) {
  if (facts_source_ == nullptr || outputs_.empty()) return;
  Facts facts = facts_source_();
  // Each time takes some hundred bytes of the file.
  if (facts.empty() || (!is_asked && facts == written_facts_)) return;
  outputs_.add_facts(facts);
  written_facts_ = std::move(facts);
}

void Drain::sample_cards() {
  outputs_.deliver(query_cards());
  write_sourced_facts(true);
}

void Drain::sample_in_order() {
  const std::vector<DeviceSample> samples = query_cards();
  if (samples.empty()) return;
  submit_deferred([samples](Drain& drain) { drain.outputs_.deliver(samples); });
}

// As facts: the last reading counts, and a process that main memory ends leaves no other trace.
void Drain::watch_host_memory() {
  last_host_look_ = steady_clock::now();
  if (outputs_.empty()) return;
  // A recording that joined since has none of the earlier readings.
  if (outputs_.newest() != newest_at_host_look_) host_memory_ = {};
  newest_at_host_look_ = outputs_.newest();
  const std::optional<HostMemory> host = host_memory_.look();
  if (!host) return;
  outputs_.add_facts({{"host_resident_bytes", std::to_string(host->resident_bytes)},
                      {"host_available_bytes", std::to_string(host->available_bytes)},
                      {"host_total_bytes", std::to_string(host->total_bytes)}});
}

void Drain::start_later(RecordingNumber recording, std::vector<std::string> words,
                        std::chrono::milliseconds later) {
  later_.push_back({recording, std::move(words), steady_clock::now() + later});
}

void Drain::start_what_is_due() {
  const auto now = steady_clock::now();
  for (const Later& later : later_) {
    if (later.due <= now && outputs_.find(later.recording) != nullptr) start_detached(later.words);
  }
  std::erase_if(later_, [&](const Later& later) { return later.due <= now; });
}

void Drain::watch_card(DeviceIndex device, const std::string& uuid) {
  cards_.watch(device, uuid);
  sample_cards();
}

std::unique_ptr<Output> Drain::take_output(RecordingNumber number) {
  std::unique_ptr<Output> taken = outputs_.take(number);
  if (taken != nullptr && outputs_.empty()) {
    interpreter_.forget_live_memory();
    interpreter_.stacks().modules().forget_all();
  }
  return taken;
}

void Drain::mark(const std::string& name, Annotation::Stage stage, std::uint64_t ticks) {
  Annotation annotation;
  annotation.stage = stage;
  annotation.time_ns = interpreter_.clock().unix_ns(ticks);
  outputs_.annotate(annotation, name);
}

void Drain::describe_modules(const std::vector<ModuleDescription>& modules) {
  ModuleNumbers& known = interpreter_.stacks().modules();
  std::vector<std::uint32_t> numbers;
  for (const ModuleDescription& module : modules) {
    numbers.push_back(module.address == 0
                          ? kNoModule
                          : known.describe(module.address,
                                           {module.path, module.class_name, true, module.is_root}));
  }
  outputs_.describe_modules(modules, numbers);
}

}  // namespace gpumemprof::capture
