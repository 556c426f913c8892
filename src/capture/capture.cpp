#include "capture/capture.h"

#include <array>
#include <atomic>
#include <exception>
#include <future>
#include <memory>
#include <optional>

#include "capture/hooks/autograd.h"
#include "capture/hooks/communicators.h"
#include "capture/hooks/cpu_hook.h"
#include "capture/hooks/cuda_tracker.h"
#include "capture/hooks/engine.h"
#include "capture/hooks/simulated_hook.h"
#include "capture/native/native_stacks.h"
#include "capture/stacks/code_object_watch.h"
#include "capture/stacks/described_modules.h"
#include "capture/stacks/line_table.h"

namespace gpumemprof::capture {
namespace {

// Created once and kept, since callbacks use it.
std::atomic<FrameWalker*> g_walker{nullptr};
std::atomic<int> g_thread_key{-1};  // found, not in use yet

// Python creates a new key in a forked child.
void forget_thread_key() {
  if (FrameWalker* walker = g_walker.load(std::memory_order_acquire); walker != nullptr)
    walker->set_thread_key(std::nullopt);
}

LabelSetNumber new_label_set() {
  static std::atomic<LabelSetNumber> next{0};
  return next.fetch_add(1, std::memory_order_relaxed);
}

Error our_bug(const std::exception& bug) {
  return {ErrorCode::bug, bug.what(), "", "please report it"};
}

// Whether the snapshots the tracker saw match what torch has just listed; shows that entries are
// read correctly.
Status check_snapshots(int devices, const std::vector<ListedSegment>& segments) {
  const std::vector<SeenSnapshot> seen = seen_snapshots();
  const auto wrong = [](std::string message) {
    return Error{ErrorCode::environment, std::move(message), "", ""};
  };
  if (seen.size() != static_cast<std::size_t>(devices)) {
    return wrong("torch's tracker reported " + std::to_string(seen.size()) + " snapshots, but " +
                 std::to_string(devices) + " were taken");
  }
  std::vector<std::uint64_t> active(seen.size());
  for (const ListedSegment& segment : segments) {
    if (segment.device < 0 || static_cast<std::size_t>(segment.device) >= active.size()) continue;
    for (const ListedBlock& block : segment.blocks) {
      if (block.state != BlockStateKind::inactive)
        active[static_cast<std::size_t>(segment.device)] += block.size_bytes;
    }
  }
  const std::uint64_t now = read_ticks();
  constexpr std::uint64_t kTenSeconds = 100'000'000'000;  // on the fastest clock there is
  for (std::size_t device = 0; device < seen.size(); ++device) {
    if (seen[device].address != 0 || seen[device].active_bytes != active[device]) {
      return wrong("torch's tracker and torch's snapshot report different sizes");
    }
    if (seen[device].ticks > now || now - seen[device].ticks > kTenSeconds) {
      return wrong("torch's tracker and the processor's clock report different times");
    }
  }
  return Done{};
}

}  // namespace

Result<RecordingNumber> start(const StartOptions& options) {
  try {
    Engine& engine = Engine::instance();
    if (const FrameWalker* walker = g_walker.load(std::memory_order_acquire))
      engine.set_walker(walker);
    if (options.native_stacks) engine.set_native_walker(native_walker(g_walker.load() != nullptr));
    return engine.start(options);
  } catch (const std::exception& bug) {
    return our_bug(bug);
  }
}

std::string path_of(RecordingNumber recording) {
  std::string path;
  Engine* engine = Engine::existing();
  if (engine == nullptr || !engine->is_recording()) return path;
  engine->run_and_wait([&](Drain& drain) {
    Output* output = drain.outputs().find(recording);
    if (output == nullptr) return;
    output->flush();
    path = output->path();
  });
  return path;
}

Summary stop(RecordingNumber recording, const std::string& reason) {
  try {
    Engine* engine = Engine::existing();
    return engine == nullptr ? Summary() : engine->stop(recording, reason);
  } catch (const std::exception& bug) {
    Summary summary;
    summary.problem = our_bug(bug).sentence();
    return summary;
  }
}

std::uint64_t newest_recording() {
  const Engine* engine = Engine::existing();
  return engine == nullptr ? 0 : engine->newest_recording();
}

bool is_recording() {
  Engine* engine = Engine::existing();
  return engine != nullptr && engine->is_recording();
}

void stop_all(const std::string& reason) {
  if (Engine* engine = Engine::existing()) engine->stop_all(reason);
}

bool flush_all(std::chrono::milliseconds most) {
  Engine* engine = Engine::existing();
  if (engine == nullptr || !engine->is_recording()) return true;
  const auto is_done = std::make_shared<std::promise<void>>();
  std::future<void> done = is_done->get_future();
  engine->drain().submit([is_done](Drain& drain) {
    drain.sample_cards();
    drain.outputs().flush();
    is_done->set_value();
  });
  return done.wait_for(most) == std::future_status::ready;
}

void flush_recording(RecordingNumber recording) {
  Engine* engine = Engine::existing();
  if (engine == nullptr || !engine->is_recording()) return;
  engine->run_and_wait([recording](Drain& drain) {
    if (Output* output = drain.outputs().find(recording)) output->flush();
  });
}

void call_after_events(std::uint64_t events, void (*call)()) {
  Engine* engine = Engine::existing();
  if (engine == nullptr) return;
  engine->drain().submit([events, call](Drain& drain) { drain.call_after(events, call); });
}

void add_facts(RecordingNumber recording, const Facts& facts) {
  Engine* engine = Engine::existing();
  if (engine == nullptr) return;
  engine->drain().submit([recording, facts](Drain& drain) {
    if (Output* output = drain.outputs().find(recording)) output->add_facts(facts);
  });
}

void set_settings(RecordingNumber recording, const AllocatorSettings& settings) {
  Engine* engine = Engine::existing();
  if (engine == nullptr) return;
  engine->drain().submit([recording, settings](Drain& drain) {
    if (Output* output = drain.outputs().find(recording)) output->set_settings(settings);
  });
}

void hold(bool is_held, bool is_without_stacks) {
  if (Engine* engine = Engine::existing()) engine->hold(is_held, is_without_stacks);
}

Status attach_cpu() { return attach_cpu_hook(); }

Status attach_cuda(TorchVersionNumber version) { return attach_cuda_tracker(version); }
Status check_cuda(TorchVersionNumber version) { return check_cuda_tracker(version); }
bool is_cuda_initialised() { return was_tracker_heard(); }

void begin_join(RecordingNumber recording) {
  Engine* engine = Engine::existing();
  if (engine == nullptr) return;
  forget_snapshots();
  engine->drain().submit([recording](Drain& drain) { drain.outputs().begin_join(recording); });
}

Status finish_join(RecordingNumber recording, int devices,
                   const std::vector<ListedSegment>& segments) {
  Engine* engine = Engine::existing();
  if (engine == nullptr) return Done{};
  Status checked = check_snapshots(devices, segments);
  engine->drain().submit([recording, segments, is_right = checked.ok()](Drain& drain) {
    drain.outputs().end_join();
    Output* output = drain.outputs().find(recording);
    if (output == nullptr) return;
    is_right ? output->add_start(segments) : output->begin_join();
  });
  return checked;
}

void join_simulated(RecordingNumber recording, int device) {
  Engine* engine = Engine::existing();
  if (engine == nullptr) return;
  engine->run_and_wait([recording, device](Drain& drain) {
    Output* output = drain.outputs().find(recording);
    if (output == nullptr) return;
    if (const auto slot = cuda_slot(static_cast<DeviceIndex>(device))) output->join(*slot);
    output->add_start({});
    output->end_self_test(true);
  });
}

void report_simulated(const SimulatedEvent& event) { emit_simulated(event); }

void hide_files(std::vector<std::string> path_beginnings) {
  Engine* engine = Engine::existing();
  if (engine == nullptr) return;
  engine->run_and_wait([&](Drain& drain) { drain.hide_files(std::move(path_beginnings)); });
}

bool wait_for_allocation(RecordingNumber recording, std::chrono::milliseconds most) {
  Engine* engine = Engine::existing();
  return engine != nullptr && engine->wait_for_allocation(recording, most);
}

void begin_self_test(RecordingNumber recording) {
  Engine* engine = Engine::existing();
  if (engine == nullptr) return;
  forget_snapshots();
  engine->drain().submit([recording](Drain& drain) { drain.outputs().begin_self_test(recording); });
}

Result<SelfTestResult> finish_self_test(RecordingNumber recording, int devices,
                                        const std::vector<ListedSegment>& segments) {
  Engine* engine = Engine::existing();
  if (engine == nullptr || !engine->is_recording()) return SelfTestResult();
  if (Status checked = check_snapshots(devices, segments); !checked) return checked.error();
  SelfTestResult result;
  engine->run_and_wait([&](Drain& drain) {
    drain.outputs().end_freezing();
    if (Output* output = drain.outputs().find(recording))
      result = output->finish_self_test(segments);
  });
  return result;
}

void end_self_test(RecordingNumber recording, bool has_passed) {
  Engine* engine = Engine::existing();
  if (engine == nullptr) return;
  engine->drain().submit([recording, has_passed](Drain& drain) {
    if (Output* output = drain.outputs().find(recording)) output->end_self_test(has_passed);
  });
}

void watch_card(DeviceIndex device, const std::string& uuid) {
  Engine* engine = Engine::existing();
  if (engine == nullptr) return;
  watch_communicators(device, uuid);
  engine->drain().submit([device, uuid](Drain& drain) {
    drain.add_facts_of(communicator_facts);
    drain.watch_card(device, uuid);
  });
}

void start_later(RecordingNumber recording, const std::vector<std::string>& words, double seconds) {
  Engine* engine = Engine::existing();
  if (engine == nullptr) return;
  const auto later = std::chrono::milliseconds(static_cast<std::int64_t>(seconds * 1000));
  engine->drain().submit_deferred(
      [=](Drain& drain) { drain.start_later(recording, words, later); });
}

Status prepare_stacks() {
  if (g_walker.load(std::memory_order_acquire) != nullptr) return Done{};
  Result<PythonLayout> layout = find_python_layout();
  if (!layout) return layout.error();
  watch_code_objects();
  g_walker.store(new FrameWalker(layout.value()), std::memory_order_release);
  return Done{};
}

void find_thread_key() {
  const FrameWalker* walker = g_walker.load(std::memory_order_acquire);
  if (walker == nullptr) return;
  const std::optional<pthread_key_t> key = find_thread_key(walker->asker());
  g_thread_key.store(key ? static_cast<int>(*key) : -1, std::memory_order_release);
}

bool use_thread_key() {
  FrameWalker* walker = g_walker.load(std::memory_order_acquire);
  const int key = g_thread_key.load(std::memory_order_acquire);
  if (walker == nullptr || key < 0) return false;
  static const bool kIsWatching = ::pthread_atfork(nullptr, nullptr, forget_thread_key) == 0;
  if (!kIsWatching) return false;
  walker->set_thread_key(static_cast<pthread_key_t>(key));
  if (walker->thread_state() == walker->asker()()) return true;
  walker->set_thread_key(std::nullopt);
  return false;
}

std::vector<StackFrame> own_stack() {
  const FrameWalker* walker = g_walker.load(std::memory_order_acquire);
  std::vector<StackFrame> frames;
  if (walker == nullptr) return frames;
  std::vector<char> buffer(2 * CodeReader::kTextBytes);
  const auto cached = std::make_unique<CachedStack>();
  const auto scratch = std::make_unique<FoundFrames>();
  std::uintptr_t kept_state = 0;
  const std::uintptr_t state = walker->find_state(kept_state);
  walker->walk(state, *cached, *scratch);
  // Walk again with the stack that the first walk cached: nothing has changed, so the result must
  // be the same.
  if (!walker->walk(state, *cached, *scratch).is_same) return frames;
  for (std::size_t index = cached->size(); index > 0; --index) {
    if (cached->is_bridge(index - 1)) continue;
    const FrameKey key = cached->key(index - 1);
    CodeText text;
    if (!walker->codes().read_code(key.code, text,
                                   std::span<char, 2 * CodeReader::kTextBytes>(buffer)))
      break;
    frames.push_back({std::string(text.name), std::string(text.file),
                      line_of(walker->codes().layout().line_table_format, text.line_table,
                              text.first_line, walker->instruction_offset(key))});
  }
  return frames;
}

Status attach_autograd() { return attach_autograd_hook(); }
void follow_autograd_of_libraries() { follow_libraries(); }

Status validate_autograd(std::uintptr_t first_grad_fn, std::uint64_t first_sequence,
                         std::uintptr_t second_grad_fn, std::uint64_t second_sequence) {
  return validate_autograd(ExpectedNode{first_grad_fn, first_sequence},
                           ExpectedNode{second_grad_fn, second_sequence});
}

void mark(const std::string& name, Annotation::Stage stage) {
  Engine* engine = Engine::existing();
  if (engine == nullptr || !engine->is_recording()) return;
  // Deferred: waking another thread costs more than all else here.
  engine->drain().submit_deferred(
      [name, stage, ticks = read_ticks()](Drain& drain) { drain.mark(name, stage, ticks); });
}

LabelSetNumber define_labels(std::vector<StorageLabel> labels) {
  const LabelSetNumber number = new_label_set();
  Engine* engine = Engine::existing();
  if (engine == nullptr || !engine->is_recording()) return number;
  engine->drain().submit_deferred([number, set = std::move(labels)](Drain& drain) mutable {
    drain.outputs().define_labels(number, std::move(set));
  });
  return number;
}

LabelSetNumber move_labels(LabelSetNumber set, std::vector<std::uint64_t> addresses) {
  const LabelSetNumber number = new_label_set();
  Engine* engine = Engine::existing();
  if (engine == nullptr || !engine->is_recording()) return number;
  engine->drain().submit_deferred([set, number, places = std::move(addresses)](Drain& drain) {
    drain.outputs().move_labels(set, number, places);
  });
  return number;
}

void apply_labels(LabelSetNumber set) {
  if (Engine* engine = Engine::existing(); engine != nullptr && engine->is_recording())
    engine->drain().submit_deferred([set](Drain& drain) { drain.outputs().apply_labels(set); });
}

void forget_labels(LabelSetNumber set) {
  if (Engine* engine = Engine::existing(); engine != nullptr && engine->is_recording())
    engine->drain().submit_deferred([set](Drain& drain) { drain.outputs().forget_labels(set); });
}

void mark_phase(PhaseMark::Kind kind, std::uint32_t number) {
  Engine* engine = Engine::existing();
  if (engine == nullptr || !engine->is_recording()) return;
  engine->drain().submit_deferred(
      [kind, number](Drain& drain) { drain.outputs().mark_phase(kind, number); });
}

void describe_modules(std::vector<ModuleDescription> modules) {
  Engine* engine = Engine::existing();
  if (engine == nullptr || !engine->is_recording()) return;
  for (const ModuleDescription& module : modules) described_modules().add(module.address);
  engine->drain().submit_deferred(
      [all = std::move(modules)](Drain& drain) { drain.describe_modules(all); });
}

void forget_module(std::uint64_t address) {
  // If this address comes up again, it is another module, even with the same stack.
  described_modules().remove(address);
  count_destroyed();
  Engine* engine = Engine::existing();
  if (engine == nullptr || !engine->is_recording()) return;
  engine->drain().submit_deferred([address](Drain& drain) { drain.forget_module(address); });
}

void leave_unnamed(std::uintptr_t type) { described_modules().add(type); }
void ask_for_names(void (*ask)()) { described_modules().set_asker(ask); }
void names_answered() { described_modules().answered(); }

std::vector<std::uintptr_t> own_modules(std::uintptr_t call_code) {
  const FrameWalker* known = g_walker.load(std::memory_order_acquire);
  std::vector<std::uintptr_t> modules;
  if (known == nullptr) return modules;
  FrameWalker walker(known->codes().layout());
  walker.set_module_code(call_code);
  const auto cached = std::make_unique<CachedStack>();
  const auto scratch = std::make_unique<FoundFrames>();
  std::uintptr_t kept_state = 0;
  walker.walk(walker.find_state(kept_state), *cached, *scratch);
  for (std::size_t index = cached->size(); index > 0; --index) {
    if (cached->key(index - 1).module != 0) modules.push_back(cached->key(index - 1).module);
  }
  return modules;
}

void follow_modules(std::uintptr_t call_code) {
  if (FrameWalker* walker = g_walker.load(std::memory_order_acquire); walker != nullptr)
    walker->set_module_code(call_code);
}

std::uint16_t enter_tag(const std::string& name) {
  Engine* engine = Engine::existing();
  if (engine == nullptr || !engine->is_recording()) return 0;
  const std::uint16_t previous = engine->emitter().tag();
  engine->emitter().set_tag(engine->tag_number(name));
  return previous;
}

void leave_tag(std::uint16_t previous) {
  Engine* engine = Engine::existing();
  if (engine != nullptr) engine->emitter().set_tag(previous);
}

}  // namespace gpumemprof::capture
