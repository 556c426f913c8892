// The ring, emitter, losses, ledger and drain under 16 threads, while recordings start and stop,
// marks and labels are added and removed, and the process forks. Meant for the thread sanitizer;
// its counts must still be right.
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <mutex>
#include <thread>
#include <vector>

#include "capture/hooks/engine.h"
#include "capture/ledger/ledger.h"
#include "capture/ledger/scope.h"
#include "capture/ticks.h"

namespace {

using namespace gpumemprof;
using namespace gpumemprof::capture;

constexpr int kThreads = 16;
constexpr int kRounds = 4;
constexpr int kBlocksInARound = 3'000;

struct Memory {
  Action action;
  std::uint64_t where;

  [[nodiscard]] bool is_alloc() const { return action == Action::alloc; }
  [[nodiscard]] bool is_free_requested() const { return action == Action::free_requested; }
  [[nodiscard]] static std::uint8_t device() { return kCpuSlot; }
  [[nodiscard]] std::uint64_t address() const { return where; }
  void write(EventRecord& record) const {
    record.action = static_cast<std::uint8_t>(action);
    record.device = kCpuSlot;
    record.address = where;
    record.size_bytes = 64;
    record.ticks = read_ticks();
  }
};

// As in libc10's hook.
std::atomic<Emitter*> g_callbacks{nullptr};

std::mutex g_heap_mutex;
std::vector<std::uint64_t> g_free;
std::uint64_t g_next = 0x10000;

std::uint64_t take() {
  const std::lock_guard lock(g_heap_mutex);
  if (g_free.empty()) return g_next += 64;
  const std::uint64_t address = g_free.back();
  g_free.pop_back();
  return address;
}
void give(std::uint64_t address) {
  const std::lock_guard lock(g_heap_mutex);
  g_free.push_back(address);
}

void report(Action action, std::uint64_t address) {
  if (Ledger* ledger = counting_ledger(kCpuSlot))
    action == Action::alloc ? ledger->on_alloc(address, 64) : ledger->on_free(address);
  if (Emitter* emitter = g_callbacks.load(std::memory_order_acquire))
    emitter->emit(Memory{action, address}, StackUse::walk);
}

void work(int blocks) {
  std::vector<std::uint64_t> mine;
  for (int block = 0; block < blocks; ++block) {
    mine.push_back(take());
    report(Action::alloc, mine.back());
    while (mine.size() > 8) {
      report(Action::free_requested, mine.front());
      give(mine.front());
      mine.erase(mine.begin());
    }
    if (block % 512 == 0) {
      Scope scope(kCpuSlot, false);
      scope.open();
      mark("stress", Annotation::Stage::start);
      scope.close();
    }
  }
  for (const std::uint64_t address : mine) {
    report(Action::free_requested, address);
    give(address);
  }
}

int g_failures = 0;

void expect(bool is_so, const char* what) {
  if (is_so) return;
  std::fprintf(stderr, "capture_stress: %s\n", what);
  ++g_failures;
}

constexpr std::uint64_t kKeptBytes = std::uint64_t{2} << 20;

// `keep_bytes`: not 0 for a folder of chapters, which are many and short.
RecordingNumber begin(const std::string& path, std::uint64_t keep_bytes = 0) {
  StartOptions options;
  options.keep_bytes = keep_bytes;
  options.chapter_events = 2'000;
  options.path = path;
  options.overwrites = true;
  options.with_stacks = false;
  const Result<RecordingNumber> number = start(options);
  if (!number) {
    std::fprintf(stderr, "%s\n", number.error().sentence().c_str());
    std::exit(1);
  }
  g_callbacks.store(&Engine::instance().emitter(), std::memory_order_release);
  return number.value();
}

// A child records nothing of its parent's, and may count and end in any way.
void fork_once() {
  const ::pid_t child = ::fork();
  if (child == 0) {
    g_callbacks.store(nullptr);
    if (Ledger* ledger = counting_ledger(kCpuSlot)) ledger->on_alloc(0x40, 64);
    ::_exit(is_recording() ? 1 : 0);
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  expect(status == 0, "a forked child is recording");
}

void one_round(const std::string& folder) {
  const RecordingNumber whole = begin(folder + "/whole.gmp");
  const RecordingNumber kept = begin(folder + "/kept.gmp", kKeptBytes);
  std::vector<std::thread> threads;
  threads.reserve(kThreads);
  for (int thread = 0; thread < kThreads; ++thread) threads.emplace_back(work, kBlocksInARound);
  for (int turn = 0; turn < 5; ++turn) {
    const RecordingNumber part =
        begin(folder + (turn % 2 == 0 ? "/part.gmp" : "/chapters.gmp"), turn % 2 * kKeptBytes);
    const LabelSetNumber labels = define_labels({{LabelKind::input, kHostDevice, 0x10040, "x"}});
    apply_labels(labels);
    fork_once();
    forget_labels(labels);
    const Summary summary = stop(part, "stop");
    expect(summary.problem.empty(), summary.problem.c_str());
    expect(summary.made.allocations >= summary.lost.allocations, "more events were lost than made");
  }
  for (std::thread& thread : threads) thread.join();
  g_callbacks.store(nullptr);
  const std::uint64_t made = std::uint64_t{kThreads} * kBlocksInARound;
  for (const RecordingNumber recording : {whole, kept}) {
    const Summary summary = stop(recording, "stop");
    expect(summary.problem.empty(), summary.problem.c_str());
    expect(summary.has_counts && summary.made.allocations == made && summary.made.frees == made,
           "the events counted as made are not those that were made");
    expect(recording == whole || summary.size_bytes <= 2 * kKeptBytes,
           "the folder is larger than it may be");
  }
}

}  // namespace

int main() {
  const std::string folder =
      std::filesystem::temp_directory_path() / ("gpumemprof-stress-" + std::to_string(::getpid()));
  std::filesystem::create_directory(folder);
  start_counting(kCpuSlot);
  for (int round = 0; round < kRounds; ++round) one_round(folder);
  stop_counting(kCpuSlot);
  std::filesystem::remove_all(folder);
  if (g_failures == 0) std::puts("capture_stress: ok");
  return g_failures == 0 ? 0 : 1;
}
