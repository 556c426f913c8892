#include "capture/hooks/cpu_hook.h"

#include <dlfcn.h>

#include <atomic>
#include <mutex>

#include "capture/hooks/call_table.h"
#include "capture/ledger/ledger.h"
#include "capture/ticks.h"
#include "event/event.h"

namespace gpumemprof::capture {
namespace {

constexpr char kCpuLibrary[] = "libc10.so";
// Tensor memory is aligned to this or more; most other memory that libc10 frees is not.
constexpr std::uintptr_t kTensorAlignment = 64;

using MemalignFunction = int (*)(void**, std::size_t, std::size_t);
using FreeFunction = void (*)(void*);

std::atomic<Emitter*> g_cpu_emitter{nullptr};
MemalignFunction g_memalign = nullptr;
FreeFunction g_free = nullptr;

struct CpuEvent {
  Action action;
  std::uint64_t memory;
  std::uint64_t size_bytes;
  std::uint64_t ticks = read_ticks();  // before waiting for the ring

  [[nodiscard]] bool is_alloc() const { return action == Action::alloc; }
  [[nodiscard]] bool is_free_requested() const { return action == Action::free_requested; }
  [[nodiscard]] static DeviceSlot device() { return kCpuSlot; }
  [[nodiscard]] std::uint64_t address() const { return memory; }
  void write(EventRecord& record) const {
    record.action = static_cast<std::uint8_t>(action);
    record.device = kCpuSlot;
    record.ticks = ticks;
    record.address = memory;
    record.size_bytes = size_bytes;
    record.stream = 0;
    record.pool_graph = 0;
    record.pool_user = 0;
  }
};

// Not inlined: one copy for both callers, so that it is fetched once.
[[gnu::hot, gnu::noinline]] void report(Emitter& emitter, Action action, void* memory,
                                        std::size_t size) {
  emitter.emit(CpuEvent{action, reinterpret_cast<std::uint64_t>(memory), size}, StackUse::walk);
}

// An allocation is reported after it was made and a free before it is, so that an address never
// seems to be allocated twice.
int memalign_hook(void** memory, std::size_t alignment, std::size_t size) {
  const int failure = g_memalign(memory, alignment, size);
  if (Ledger* ledger = counting_ledger(kCpuSlot); ledger != nullptr && failure == 0 && size > 0)
    ledger->on_alloc(reinterpret_cast<std::uint64_t>(*memory), size);
  Emitter* emitter = g_cpu_emitter.load(std::memory_order_acquire);
  if (emitter != nullptr && failure == 0 && size > 0)
    report(*emitter, Action::alloc, *memory, size);
  return failure;
}

void free_hook(void* memory) {
  const auto address = reinterpret_cast<std::uintptr_t>(memory);
  if (memory != nullptr && address % kTensorAlignment == 0) {
    if (Ledger* ledger = counting_ledger(kCpuSlot); ledger != nullptr) ledger->on_free(address);
    Emitter* emitter = g_cpu_emitter.load(std::memory_order_acquire);
    if (emitter != nullptr) report(*emitter, Action::free_requested, memory, 0);
  }
  g_free(memory);
}

}  // namespace

Status attach_cpu_hook() {
  static std::mutex mutex;
  static bool is_attached = false;
  const std::lock_guard lock(mutex);
  if (is_attached) return Done{};
  if (!is_library_loaded(kCpuLibrary)) {
    return Error{ErrorCode::environment,
                 "this process has not loaded libtorch, so it has no tensors to record",
                 kCpuLibrary,
                 "link the program with libtorch's shared libraries, or load them first"};
  }
  // Not what the table holds now: an entry that was never called points to the loader, which would
  // overwrite ours.
  g_memalign = reinterpret_cast<MemalignFunction>(::dlsym(RTLD_DEFAULT, "posix_memalign"));
  g_free = reinterpret_cast<FreeFunction>(::dlsym(RTLD_DEFAULT, "free"));
  if (g_memalign == nullptr || g_free == nullptr ||
      redirect_calls(kCpuLibrary, "free", reinterpret_cast<void*>(free_hook)) == 0 ||
      redirect_calls(kCpuLibrary, "posix_memalign", reinterpret_cast<void*>(memalign_hook)) == 0) {
    return Error{ErrorCode::environment,
                 "this torch does not allocate CPU tensors with posix_memalign", kCpuLibrary,
                 "CPU tensors cannot be recorded with it"};
  }
  is_attached = true;
  return Done{};
}

void set_cpu_emitter(Emitter* emitter) { g_cpu_emitter.store(emitter, std::memory_order_release); }

}  // namespace gpumemprof::capture
