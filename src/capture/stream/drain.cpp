#include "capture/stream/drain.h"

#include <pthread.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <exception>
#include <string>
#include <system_error>

namespace gpumemprof::capture {
namespace {

using std::chrono::steady_clock;

// Often enough that the ring stays far from full at any rate torch can reach, seldom enough not to
// be noticed.
constexpr auto kPause = std::chrono::milliseconds(20);
// How much a killed process loses.
constexpr auto kFlushEvery = std::chrono::milliseconds(400);
constexpr auto kSampleEvery = std::chrono::seconds(1);
// After the pool grew or shrank; a program that starts up grows in many small steps.
constexpr auto kSampleSoon = std::chrono::milliseconds(50);
// So that flushes happen on time while records keep coming.
constexpr std::uint64_t kMostRecordsAtOnce = 1U << 17;
// No command is waiting for a record.
constexpr std::uint64_t kNowhere = ~std::uint64_t{0};

// Signals are for the program's own threads to handle.
void block_signals() {
  sigset_t all;
  ::sigfillset(&all);
  ::pthread_sigmask(SIG_SETMASK, &all, nullptr);
}

bool changes_reserved_memory(Action action) {
  return action == Action::segment_alloc || action == Action::segment_free ||
         action == Action::segment_map || action == Action::segment_unmap;
}

}  // namespace

void Drain::submit(Command command) {
  const std::lock_guard lock(mutex_);
  const std::uint64_t losses = emitter_.losses().seal();
  commands_.push_back({ring_.head(), losses, std::move(command)});
  wakes_.notify_one();
}

void Drain::submit_deferred(Command command) {
  const std::lock_guard lock(mutex_);
  const std::uint64_t losses = emitter_.losses().seal();
  commands_.push_back({ring_.head(), losses, std::move(command)});
}

Status Drain::start_thread() {
  if (thread_.joinable()) return Done{};
  is_stopping_ = false;
  try {
    thread_ = std::thread([this] { run(); });
  } catch (const std::system_error& failure) {
    return Error{ErrorCode::environment,
                 std::string("no thread could be started (") + failure.what() + ")", "",
                 "nothing is recorded; raise the limit on processes (ulimit -u)"};
  }
  return Done{};
}

void Drain::stop_thread() {
  if (!thread_.joinable()) return;
  {
    const std::lock_guard lock(mutex_);
    is_stopping_ = true;
    wakes_.notify_one();
  }
  thread_.join();
}

void Drain::run() {
  block_signals();
  ::pthread_setname_np(::pthread_self(), "gpumemprof");
  for (;;) {
    bool was_busy = false;
    try {
      was_busy = pump();
      run_periodic();
    } catch (const std::exception& failure) {
      // Our problem, not the program's: the recordings end here, the program goes on.
      for (const auto& output : outputs_) output->give_up(failure.what());
    }
    std::unique_lock lock(mutex_);
    if (is_stopping_ && commands_.empty()) return;
    if (!was_busy && commands_.empty()) wakes_.wait_for(lock, kPause);
  }
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
    take_losses(next->losses);
    next->command(*this);
    return true;
  }
  const bool has_command = position != kNowhere;
  const std::uint64_t taken = pump_until(std::min(position, most));
  if (!has_command && emitter_.is_losing()) catch_up();
  return taken == kMostRecordsAtOnce || has_command;
}

std::uint64_t Drain::pump_until(std::uint64_t position) {
  const std::uint64_t before = ring_.tail();
  Record record;
  while (ring_.tail() < position && ring_.pop(record)) {
    // A free that came through the log must be taken before the address is used again.
    if (emitter_.losses().logged() != losses_collected_) [[unlikely]]
      collect_losses();
    if (!losses_.empty()) [[unlikely]]
      take_losses_before(ring_.tail() - 1);
    take(record);
  }
  return ring_.tail() - before;
}

void Drain::collect_losses() {
  collected_.clear();
  emitter_.losses().collect(collected_);
  losses_collected_ += collected_.size();
  losses_.insert(losses_.end(), collected_.begin(), collected_.end());
}

void Drain::take_losses_before(std::uint64_t position) {
  while (!losses_.empty() && losses_.front().position <= position) {
    const LossEntry entry = losses_.front();
    losses_.pop_front();
    ++losses_taken_;
    take_loss(entry);
  }
}

void Drain::take_losses(std::uint64_t count) {
  if (losses_collected_ < count) collect_losses();
  while (losses_taken_ < count && !losses_.empty()) {
    const LossEntry entry = losses_.front();
    losses_.pop_front();
    ++losses_taken_;
    take_loss(entry);
  }
}

void Drain::take_loss(const LossEntry& entry) {
  if (entry.address == 0) {
    Lost lost;
    lost.device = entry.device;
    lost.epoch = entry.epoch;
    lost.counts = entry.lost;
    lost.first_time_ns = clock_.unix_ns(entry.first_ticks);
    lost.last_time_ns = clock_.unix_ns(entry.last_ticks);
    for (const auto& output : outputs_) output->note_lost(lost);
    return;
  }
  DrainedEvent event;
  event.device = kCpuDevice;
  event.time_ns = clock_.unix_ns(entry.first_ticks);
  event.address = entry.address;
  take_cpu_free(event);
}

// There may be nothing left to take but what was lost.
void Drain::catch_up() {
  if (emitter_.losses().logged() != losses_collected_) collect_losses();
  take_losses_before(ring_.tail());
  if (losses_.empty()) emitter_.losses().end_if_over(ring_.tail());
}

void Drain::run_periodic() {
  const auto now = steady_clock::now();
  if (now - last_sample_ >= (has_pool_changed_ ? kSampleSoon : kSampleEvery)) sample_in_order();
  if (now - last_flush_ < kFlushEvery) return;
  last_flush_ = now;
  clock_.anchor();
  for (const auto& output : outputs_) output->flush();
}

std::vector<DeviceSample> Drain::query_cards() {
  last_sample_ = steady_clock::now();
  has_pool_changed_ = false;
  std::vector<DeviceSample> samples = cards_.sample();
  for (DeviceSample& sample : samples) sample.time_ns = clock_.unix_ns(read_ticks());
  return samples;
}

void Drain::deliver(const std::vector<DeviceSample>& samples) {
  for (const DeviceSample& sample : samples) {
    for (const auto& output : outputs_) output->take(sample);
  }
}

void Drain::sample_cards() { deliver(query_cards()); }

void Drain::sample_in_order() {
  const std::vector<DeviceSample> samples = query_cards();
  if (samples.empty()) return;
  submit_deferred([samples](Drain& drain) { drain.deliver(samples); });
}

void Drain::watch_card(DeviceIndex device, const std::string& uuid) {
  cards_.watch(device, uuid);
  sample_cards();
}

void Drain::define_labels(LabelSetNumber set, std::vector<StorageLabel> labels) {
  label_sets_.insert_or_assign(set, std::move(labels));
}

void Drain::move_labels(LabelSetNumber set, LabelSetNumber to,
                        const std::vector<std::uint64_t>& addresses) {
  const auto found = label_sets_.find(set);
  if (found == label_sets_.end()) return;
  std::vector<StorageLabel> labels = std::move(found->second);
  forget_labels(set);
  if (labels.size() != addresses.size()) return;
  for (std::size_t row = 0; row < labels.size(); ++row) labels[row].address = addresses[row];
  define_labels(to, std::move(labels));
}

void Drain::apply_labels(LabelSetNumber set) {
  const auto found = label_sets_.find(set);
  if (found == label_sets_.end()) return;
  for (const auto& output : outputs_) output->apply_labels(set, found->second);
}

void Drain::forget_labels(LabelSetNumber set) {
  label_sets_.erase(set);
  for (const auto& output : outputs_) output->forget_labels(set);
}

void Drain::mark_phase(PhaseMark::Kind kind, std::uint32_t number) {
  for (const auto& output : outputs_) output->mark_phase(kind, number);
}

void Drain::describe_modules(const std::vector<ModuleDescription>& modules) {
  std::vector<std::uint32_t> numbers;
  for (const ModuleDescription& module : modules) {
    numbers.push_back(module.address == 0 ? kNoModule
                                          : stack_mirror_.modules().describe(
                                                module.address, {module.path, module.class_name,
                                                                 true, module.is_root}));
  }
  for (const auto& output : outputs_) output->describe_modules(modules, numbers);
}

void Drain::take(const Record& record) {
  switch (record.kind) {
    case RecordKind::event:
      return take(record.event);
    case RecordKind::frames:
      return stack_mirror_.take(record.frames);
    case RecordKind::code:
      return stack_mirror_.take(record.code);
    case RecordKind::node:
      return take(record.node);
    case RecordKind::module:
      return stack_mirror_.take(record.module);
    case RecordKind::nothing:
      return;
  }
}

void Drain::take(const EventRecord& record) {
  DrainedEvent event;
  event.action = static_cast<Action>(record.action);
  event.device = record.device;
  event.tag = record.tag;
  event.time_ns = clock_.unix_ns(record.ticks);
  event.address = record.address;
  event.size_bytes = record.size_bytes;
  event.stream = record.stream;
  event.pool = {record.pool_graph, record.pool_user};
  if (record.stack == StackChange::moved) stack_mirror_.move(record.thread, record.instruction);
  if (record.stack != StackChange::none) event.stack = stack_mirror_.stack_of(record.thread);
  if (event.action == Action::alloc) event.forward_stack = forward_stacks_.of(record.thread);
  if (event.action == Action::alloc || event.action == Action::oom)
    event.module = stack_mirror_.module_of(event.stack, event.forward_stack);
  if (record.device == kCpuDevice) return take_cpu(record, event);
  if (event.action == Action::snapshot) {
    // torch reports device 0 whatever the device; the order identifies it.
    if (joining_ != nullptr) joining_->join(next_to_join_++);
    if (freezing_ != nullptr) freezing_->freeze_self_test(next_to_freeze_++);
    return;
  }
  has_pool_changed_ |= changes_reserved_memory(event.action);
  deliver(event);
}

void Drain::take(const NodeRecord& record) {
  forward_stacks_.enter_epoch(record.epoch);
  if (record.is_running) return forward_stacks_.runs(record.thread, record.node);
  if (record.stack == StackChange::moved) stack_mirror_.move(record.thread, record.instruction);
  const bool has_stack = record.stack != StackChange::none;
  forward_stacks_.made(record.thread, record.node, record.end_before,
                       has_stack ? stack_mirror_.stack_of(record.thread) : StackId());
}

void Drain::take_cpu(const EventRecord& record, DrainedEvent& event) {
  if (event.action != Action::alloc) return take_cpu_free(event);
  // It was freed by someone we do not follow.
  if (const LiveBlock* known = live_.find(record.address); known != nullptr) {
    DrainedEvent unseen = event;
    unseen.stack = StackId();
    unseen.is_inferred = true;
    deliver_free(unseen, known->size_bytes);
  }
  Epoch ignored = 0;
  emitter_.losses().take_lost(record.address, ignored);
  live_.insert_or_assign(record.address, {record.size_bytes});
  deliver(event);
}

void Drain::take_cpu_free(const DrainedEvent& event) {
  const LiveBlock* known = live_.find(event.address);
  if (known != nullptr) {
    deliver_free(event, known->size_bytes);
    live_.erase(event.address);
    return;
  }
  Lost lost;
  // Otherwise it is not tensor memory, or was allocated before recording began.
  if (!emitter_.losses().take_lost(event.address, lost.epoch)) return;
  lost.device = event.device;
  lost.counts.frees = 1;
  lost.first_time_ns = lost.last_time_ns = event.time_ns;
  for (const auto& output : outputs_) output->note_lost(lost);
}

void Drain::deliver_free(DrainedEvent event, std::uint64_t size_bytes) {
  event.size_bytes = size_bytes;
  event.action = Action::free_requested;
  deliver(event);
  event.action = Action::free_completed;
  deliver(event);
}

void Drain::deliver(const DrainedEvent& event) {
  for (const auto& output : outputs_) output->take(event, stack_mirror_, tags_);
}

Output* Drain::output(RecordingNumber number) {
  const auto found = std::find_if(outputs_.begin(), outputs_.end(),
                                  [&](const auto& output) { return output->number() == number; });
  return found == outputs_.end() ? nullptr : found->get();
}

std::unique_ptr<Output> Drain::take_output(RecordingNumber number) {
  const auto found = std::find_if(outputs_.begin(), outputs_.end(),
                                  [&](const auto& output) { return output->number() == number; });
  if (found == outputs_.end()) return nullptr;
  std::unique_ptr<Output> taken = std::move(*found);
  outputs_.erase(found);
  if (joining_ == taken.get()) joining_ = nullptr;
  if (freezing_ == taken.get()) freezing_ = nullptr;
  if (outputs_.empty()) {
    live_.clear();
    label_sets_.clear();
    stack_mirror_.modules().forget_all();
  }
  return taken;
}

void Drain::begin_join(RecordingNumber number) {
  joining_ = output(number);
  next_to_join_ = 0;
  if (joining_ != nullptr) joining_->begin_join();
}

void Drain::begin_self_test(RecordingNumber number) {
  freezing_ = output(number);
  next_to_freeze_ = 0;
}

void Drain::note_pause() {
  for (const auto& output : outputs_) output->note_pause();
}

void Drain::mark(const std::string& name, Annotation::Stage stage, std::uint64_t ticks) {
  Annotation annotation;
  annotation.stage = stage;
  annotation.time_ns = clock_.unix_ns(ticks);
  for (const auto& output : outputs_) output->take(annotation, name);
}

}  // namespace gpumemprof::capture
