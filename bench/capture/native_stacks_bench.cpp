// What a native stack 30 frames deep costs an event, in CPU time, beside libunwind's unw_backtrace
// and the C library's backtrace() in the same run. The bar: at most 1 µs an event.
//
//   build/bench/native_stacks_bench
//
// A program does something between two events, and pushes the recorder out of the nearest caches.
// `a_step_with_*` measures that: as many different stacks as a step of training has, one after the
// other, with some memory read in between, which is not measured.
#include <benchmark/benchmark.h>
#include <dlfcn.h>

#include <array>
#include <cstdint>
#include <utility>
#include <vector>

#if defined(__x86_64__)
#include <x86intrin.h>
#endif

#include "capture/native/native_walker.h"
#include "capture/stacks/thread_slot.h"
#include "capture/stream/emitter.h"
#include "capture/stream/ring.h"
#include "event/event.h"

namespace {

using namespace gpumemprof;
using namespace gpumemprof::capture;

constexpr int kDepth = 30;
constexpr std::size_t kRingRecords = 1U << 16;

// Calls itself as another function each time, and so leaves kFrames frames of different sizes.
// `kVariant` makes all of them others.
template <int kFrames, int kVariant, typename Work>
[[gnu::noinline]] int descend(const Work& work) {
  volatile char room[16 + 8 * kFrames];
  room[0] = 1;
  if constexpr (kFrames <= 1) {
    work();
  } else {
    descend<kFrames - 1, kVariant>(work);
  }
  return room[0];
}

// An allocation as a hook reports it.
struct BenchEvent {
  [[nodiscard]] static bool is_alloc() { return true; }
  [[nodiscard]] static bool is_free_requested() { return false; }
  [[nodiscard]] static DeviceSlot device() { return kCpuSlot; }
  [[nodiscard]] static std::uint64_t address() { return 64; }
  static void write(EventRecord& record) {
    record.action = static_cast<std::uint8_t>(Action::alloc);
    record.device = kCpuSlot;
    record.ticks = 1;
    record.address = 64;
    record.size_bytes = 64;
    record.stream = 0;
    record.pool_graph = 0;
    record.pool_user = 0;
  }
};

struct Recorder {
  Ring ring{kRingRecords};
  ThreadSlots slots;
  Emitter emitter{ring, slots};

  [[gnu::noinline]] void emit() { emitter.emit(BenchEvent(), StackUse::walk); }
  // The consumer is another thread in a real recording.
  void empty(benchmark::State& state) {
    state.PauseTiming();
    Record record;
    while (ring.pop(record)) benchmark::DoNotOptimize(record);
    state.ResumeTiming();
  }
};

// Frames of the benchmark itself are on the stack, too: as many more are on it for everyone.
std::size_t frames_below(NativeWalker& walker) {
  static NativeAddresses found;
  static StackEnd end;
  return walker.walk(found, end);
}

template <typename Event>
void record_events(benchmark::State& state, NativeWalker* walker, const Event& event) {
  Recorder recorder;
  recorder.emitter.set_native_walker(walker);
  for (auto _ : state) {
    for (int round = 0; round < 500; ++round) event(recorder);
    recorder.empty(state);
  }
  state.SetItemsProcessed(state.iterations() * 1000);
  if (walker != nullptr) {
    std::size_t frames = 0;
    descend<kDepth, 0>([&] { frames = frames_below(*walker); });
    state.counters["frames"] = static_cast<double>(frames);
  }
}

constexpr auto kEmit = [](Recorder& recorder) { return [&recorder] { recorder.emit(); }; };

void an_event_without_stack(benchmark::State& state) {
  record_events(state, nullptr, [](Recorder& recorder) {
    descend<kDepth, 0>(kEmit(recorder));
    descend<kDepth, 0>(kEmit(recorder));
  });
}
BENCHMARK(an_event_without_stack);

// As in a loop: the line that allocates changes, its callers stay.
void an_event_with_another_innermost_frame(benchmark::State& state) {
  NativeWalker walker({});
  record_events(state, &walker, [](Recorder& recorder) {
    descend<kDepth - 1, 0>([&] {
      recorder.emit();
      recorder.emit();
    });
  });
}
BENCHMARK(an_event_with_another_innermost_frame);

// The worst: all 30 frames differ from those of the event before.
void an_event_with_another_stack(benchmark::State& state) {
  NativeWalker walker({});
  record_events(state, &walker, [](Recorder& recorder) {
    descend<kDepth, 0>(kEmit(recorder));
    descend<kDepth, 1>(kEmit(recorder));
  });
}
BENCHMARK(an_event_with_another_stack);

#if defined(__x86_64__)
// What a program reads between two events.
class OtherMemory {
 public:
  explicit OtherMemory(std::size_t kibibytes)
      : words_(kibibytes * 1024 / sizeof(std::uint64_t), 1) {}
  [[gnu::noinline]] void read() {
    std::uint64_t sum = 0;
    for (std::size_t index = 0; index < words_.size(); index += 8) sum += words_[index]++;
    benchmark::DoNotOptimize(sum);
  }

 private:
  std::vector<std::uint64_t> words_;
};

struct Stopwatch {
  std::uint64_t ticks = 0;
  std::uint64_t events = 0;
  void measure(Recorder& recorder) {
    _mm_lfence();
    const std::uint64_t before = __rdtsc();
    recorder.emit();
    _mm_lfence();
    ticks += __rdtsc() - before;
    ++events;
  }
};

// The inner half of the frames differs from event to event.
template <int kVariant>
void one_event(Recorder& recorder, OtherMemory& memory, Stopwatch& watch) {
  descend<kDepth / 2, kVariant>([&] {
    memory.read();
    watch.measure(recorder);
  });
}

template <int... kVariants>
void one_step(Recorder& recorder, OtherMemory& memory, Stopwatch& watch,
              std::integer_sequence<int, kVariants...> /*stacks*/) {
  (one_event<kVariants>(recorder, memory, watch), ...);
}

double ticks_in_a_second() {
  const auto seconds = [] {
    timespec now{};
    ::clock_gettime(CLOCK_MONOTONIC, &now);
    return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
  };
  const double began = seconds();
  const std::uint64_t ticks = __rdtsc();
  while (seconds() < began + 0.05) {
  }
  return static_cast<double>(__rdtsc() - ticks) / (seconds() - began);
}

void a_step_of(benchmark::State& state, NativeWalker* walker) {
  static const double kTicks = ticks_in_a_second();
  constexpr int kStacks = 100;
  Recorder recorder;
  recorder.emitter.set_native_walker(walker);
  OtherMemory memory(static_cast<std::size_t>(state.range(0)));
  Stopwatch watch;
  descend<kDepth / 2, -1>([&] {
    for (auto _ : state) {
      one_step(recorder, memory, watch, std::make_integer_sequence<int, kStacks>());
      recorder.empty(state);
    }
  });
  state.counters["event_ns"] =
      1e9 * static_cast<double>(watch.ticks) / kTicks / static_cast<double>(watch.events);
}

void a_step_with_stacks(benchmark::State& state) {
  static NativeWalker walker({});
  a_step_of(state, &walker);
}
void a_step_without_stacks(benchmark::State& state) { a_step_of(state, nullptr); }
constexpr int kFarMemory = 4096;  // KiB
BENCHMARK(a_step_without_stacks)->Arg(0)->Arg(64)->Arg(512)->Arg(kFarMemory);
BENCHMARK(a_step_with_stacks)->Arg(0)->Arg(64)->Arg(512)->Arg(kFarMemory);
#endif

void walk_alone(benchmark::State& state) {
  NativeWalker walker({});
  descend<kDepth, 0>([&] {
    for (auto _ : state) benchmark::DoNotOptimize(frames_below(walker));
    state.counters["frames"] = static_cast<double>(frames_below(walker));
  });
}
BENCHMARK(walk_alone);

using Backtrace = int (*)(void** addresses, int most);

void backtrace_of(benchmark::State& state, const char* library, const char* function) {
  void* loaded = ::dlopen(library, RTLD_NOW | RTLD_LOCAL);
  const auto backtrace =
      loaded == nullptr ? nullptr : reinterpret_cast<Backtrace>(::dlsym(loaded, function));
  if (backtrace == nullptr) return state.SkipWithError("it is not installed");
  std::array<void*, 256> found{};
  descend<kDepth, 0>([&] {
    int frames = backtrace(found.data(), found.size());
    for (auto _ : state) frames = backtrace(found.data(), found.size());
    state.counters["frames"] = frames;
  });
}
BENCHMARK_CAPTURE(backtrace_of, libunwind, "libunwind.so.8", "unw_backtrace");
BENCHMARK_CAPTURE(backtrace_of, glibc, "libc.so.6", "backtrace");

}  // namespace
