// What a native stack 30 frames deep costs an event, in CPU time, beside libunwind's unw_backtrace
// and the C library's backtrace() in the same run. The bar: at most 1 µs an event.
//
//   build/bench/native_stacks_bench
#include <benchmark/benchmark.h>
#include <dlfcn.h>

#include <array>
#include <cstdint>

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
  static NativeStack stack;
  return walker.walk(stack.spare(), stack.end);
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
