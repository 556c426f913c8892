#include "capture/hooks/engine.h"

#include <pthread.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <vector>

#include "capture/hooks/autograd.h"
#include "capture/hooks/cpu_hook.h"
#include "capture/hooks/cuda_tracker.h"
#include "capture/hooks/simulated_hook.h"

namespace gpumemprof::capture {
namespace {

// 16 MiB: over 50 ms of events at the highest rate a Python loop can reach.
constexpr std::size_t kRingRecords = 1U << 18;
constexpr std::uint16_t kMostTags = 0xFFFF;
// How long a program's exit may wait for what the ring still holds.
constexpr auto kLongestEnd = std::chrono::seconds(10);

std::atomic<Engine*> g_engine{nullptr};
// Also across a fork: a child that records and then ends a recording of its parent's must not end
// its own.
std::atomic<RecordingNumber> g_last_number{0};
// A worker process; there may be many, and most do little.
bool g_is_forked = false;

// The drain thread does not exist in a child, and the open files belong to the parent.
void leave_to_parent() {
  set_cpu_emitter(nullptr);
  set_cuda_emitter(nullptr);
  set_simulated_emitter(nullptr);
  set_autograd_emitter(nullptr);
  g_engine.store(nullptr, std::memory_order_release);
  g_is_forked = true;
}

Origin origin_of(const StartOptions& options) {
  Origin origin;
  origin.kind = options.is_predicted ? kPredictedRun : kLiveRun;
  origin.device_type = device_type(options.memory);
  origin.has_start = true;
  origin.has_traces = true;
  origin.facts = options.facts;
  return origin;
}

}  // namespace

Engine::Engine()
    : process_(::getpid()),
      ring_(kRingRecords, g_is_forked ? Ring::Pages::on_demand : Ring::Pages::up_front),
      emitter_(ring_, slots_),
      drain_(ring_, emitter_) {}

Engine& Engine::instance() {
  static std::mutex mutex;
  static const int kAtFork = ::pthread_atfork([] { mutex.lock(); }, [] { mutex.unlock(); },
                                              [] {
                                                leave_to_parent();
                                                mutex.unlock();
                                              });
  static_cast<void>(kAtFork);
  const std::lock_guard lock(mutex);
  Engine* engine = g_engine.load(std::memory_order_acquire);
  if (engine == nullptr) {
    engine = new Engine();
    g_engine.store(engine, std::memory_order_release);
  }
  return *engine;
}

Engine* Engine::existing() { return g_engine.load(std::memory_order_acquire); }

Result<RecordingNumber> Engine::start(const StartOptions& options) {
  const std::lock_guard lock(mutex_);
  if (Status started = drain_.start_thread(); !started) return started.error();
  Result<RecordingNumber> number = open(options);
  if (open_.empty()) drain_.stop_thread();
  return number;
}

Result<RecordingNumber> Engine::open(const StartOptions& options) {
  const Origin origin = origin_of(options);
  TraceOptions trace_options;
  trace_options.existing =
      options.overwrites ? FileSink::Existing::replace : FileSink::Existing::refuse;
  trace_options.waits_for_events = options.waits_for_events;
  trace_options.takes_free_name = options.waits_for_events;
  trace_options.second_name = options.second_name;
  std::string path = options.path;
  std::unique_ptr<Chapters> chapters;
  if (options.keep_bytes > 0) {
    ChapterLimits limits;
    limits.keep_bytes = options.keep_bytes;
    if (options.chapter_events > 0) limits.chapter_events = options.chapter_events;
    auto shelf = std::make_unique<ChapterShelf>(options.path, limits);
    if (!options.waits_for_events) {
      if (Status opened = shelf->open(trace_options.existing); !opened) return opened.error();
    }
    trace_options.makes_folder = options.waits_for_events;
    path = shelf->path_of(1);
    chapters = std::make_unique<Chapters>(std::move(shelf), options.memory);
  }
  Result<std::unique_ptr<TraceWriter>> writer = TraceWriter::open(path, origin, {}, trace_options);
  if (!writer) return writer.error();

  const RecordingNumber number = ++g_last_number;
  // std::function requires something copyable.
  auto first_allocation = std::make_shared<FirstAllocation>();
  auto output = std::make_shared<std::unique_ptr<Output>>(std::make_unique<Output>(
      number, std::move(writer).value(), std::move(chapters), options, origin, first_allocation));
  (*output)->begin(emitter_.losses().next_epoch(), emitter_.losses().undecided());
  drain_.submit([output](Drain& drain) { drain.outputs().add(std::move(*output)); });
  open_[number] = {options.memory, options.with_stacks,
                   options.with_stacks && options.native_stacks,
                   options.native_depth == 0 ? kUsualNativeDepth : options.native_depth,
                   std::move(first_allocation)};
  update_callbacks();
  return number;
}

bool Engine::end(RecordingNumber recording) {
  const auto open = open_.find(recording);
  if (open == open_.end()) return false;
  open->second.first_allocation->end();
  open_.erase(open);
  update_callbacks();
  return true;
}

void Engine::submit_close(RecordingNumber recording, const std::string& reason,
                          const std::shared_ptr<std::promise<Summary>>& done) {
  drain_.submit([recording, reason, done](Drain& drain) {
    Summary summary;
    try {
      drain.sample_cards();
      if (std::unique_ptr<Output> output = drain.take_output(recording))
        summary = output->close(reason, drain.undecided_losses());
    } catch (const std::exception& bug) {
      summary.problem = bug.what();
    }
    done->set_value(summary);  // the caller must not wait forever
  });
}

Summary Engine::stop(RecordingNumber recording, const std::string& reason) {
  {
    const std::lock_guard lock(mutex_);
    if (!end(recording)) return {};
  }
  const auto done = std::make_shared<std::promise<Summary>>();
  submit_close(recording, reason, done);
  const Summary summary = done->get_future().get();
  const std::lock_guard lock(mutex_);
  if (open_.empty()) drain_.stop_thread();
  return summary;
}

void Engine::stop_all(const std::string& reason) {
  if (!is_of_this_process()) return;
  const auto latest = std::chrono::steady_clock::now() + kLongestEnd;
  std::vector<std::future<Summary>> closed;
  {
    const std::unique_lock lock(mutex_, latest);
    if (!lock.owns_lock()) return;
    while (!open_.empty()) {
      const RecordingNumber recording = open_.begin()->first;
      end(recording);
      const auto done = std::make_shared<std::promise<Summary>>();
      closed.push_back(done->get_future());
      submit_close(recording, reason, done);
    }
  }
  for (std::future<Summary>& one : closed) one.wait_until(latest);
}

void Engine::set_walker(const FrameWalker* walker) {
  const std::lock_guard lock(mutex_);
  walker_ = walker;
  const LineTableFormat format = walker->codes().layout().line_table_format;
  drain_.submit([format](Drain& drain) { drain.set_line_table_format(format); });
  update_callbacks();
}

void Engine::set_native_walker(NativeWalker* walker) {
  const std::lock_guard lock(mutex_);
  native_walker_ = walker;
}

void Engine::hold(bool is_held, bool is_without_stacks) {
  const std::lock_guard lock(mutex_);
  if (is_held != is_held_) drain_.submit([](Drain& drain) { drain.outputs().note_pause(); });
  is_held_ = is_held;
  is_without_stacks_ = is_without_stacks;
  update_callbacks();
}

void Engine::update_callbacks() {
  bool has_cpu = false;
  bool has_cuda = false;
  bool has_stacks = false;
  bool has_native = false;
  std::size_t native_depth = 0;
  for (const auto& [number, open] : open_) {
    (open.memory == MemoryKind::cpu ? has_cpu : has_cuda) = true;
    has_stacks |= open.with_stacks;
    has_native |= open.native_stacks;
    if (open.native_stacks) native_depth = std::max(native_depth, open.native_depth);
  }
  has_stacks &= !is_without_stacks_ && !is_held_;
  has_native &= has_stacks;
  has_cpu &= !is_held_;
  has_cuda &= !is_held_;
  if (has_native && native_walker_ != nullptr) native_walker_->set_depth(native_depth);
  emitter_.set_walker(has_stacks ? walker_ : nullptr);
  emitter_.set_native_walker(has_native ? native_walker_ : nullptr);
  set_cpu_emitter(has_cpu ? &emitter_ : nullptr);
  set_cuda_emitter(has_cuda ? &emitter_ : nullptr);
  set_simulated_emitter(has_cuda ? &emitter_ : nullptr);
  note_nodes(has_stacks);
  const std::uint64_t newest = (static_cast<std::uint64_t>(process_) << 32U) |
                               static_cast<std::uint32_t>(g_last_number.load());
  newest_open_.store(open_.empty() ? 0 : newest, std::memory_order_release);
}

void Engine::note_nodes(bool is_on) {
  if (is_on == notes_nodes_) return;
  notes_nodes_ = is_on;
  // After the last record and again before the first one: a thread may be in the middle of
  // recording a node.
  if (!is_on) set_autograd_emitter(nullptr);
  emitter_.lose_nodes();
  if (is_on) set_autograd_emitter(&emitter_);
}

bool Engine::wait_for_allocation(RecordingNumber recording, std::chrono::milliseconds most) {
  std::shared_ptr<FirstAllocation> first;
  {
    const std::lock_guard lock(mutex_);
    const auto open = open_.find(recording);
    if (open == open_.end()) return false;
    first = open->second.first_allocation;
  }
  return first->wait(most);
}

void Engine::run_and_wait(const Drain::Command& command) {
  std::promise<void> done;
  drain_.submit([&](Drain& drain) {
    try {
      command(drain);
    } catch (...) {
      done.set_value();  // the caller must not wait forever
      throw;
    }
    done.set_value();
  });
  done.get_future().wait();
}

std::uint16_t Engine::tag_number(const std::string& name) {
  const std::lock_guard lock(mutex_);
  const auto known = tags_.find(name);
  if (known != tags_.end()) return known->second;
  if (tags_.size() + 1 >= kMostTags) return 0;
  const auto number = static_cast<std::uint16_t>(tags_.size() + 1);
  tags_.emplace(name, number);
  drain_.submit([name](Drain& drain) { drain.outputs().add_tag(name); });
  return number;
}

}  // namespace gpumemprof::capture
