#include "capture/hooks/cuda_tracker.h"

#include <dlfcn.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstddef>
#include <cstring>
#include <exception>
#include <mutex>
#include <optional>
#include <string>

#include "capture/ledger/ledger.h"
#include "event/event.h"

namespace gpumemprof::capture {
namespace {

constexpr char kAllocator[] = "_ZN3c104cuda20CUDACachingAllocator9allocatorE";
constexpr char kSisterTable[] = "_ZTVN5torch4cuda22CUDAPluggableAllocator22CUDAPluggableAllocatorE";
// The class of the entry moved in 2.11.
constexpr const char* kSisterFunctions[] = {
    "_ZN5torch4cuda22CUDAPluggableAllocator22CUDAPluggableAllocator27attachAllocatorTraceTrackerESt"
    "8functionIFvRKN3c10"
    "22CachingDeviceAllocator10TraceEntryEEE",
    "_ZN5torch4cuda22CUDAPluggableAllocator22CUDAPluggableAllocator27attachAllocatorTraceTrackerESt"
    "8functionIFvRKN3c10"
    "4cuda20CUDACachingAllocator10TraceEntryEEE",
};
// Exported by libtorch_cuda from 2.5 on, by libtorch_python before.
constexpr const char* kSisterLibraries[] = {"libtorch_cuda.so", "libtorch_python.so"};
constexpr std::size_t kMostSlots = 200;
constexpr std::size_t kTableHead = 2;  // a vtable starts with two other words

struct KnownSlot {
  int minor;
  std::size_t slot;
};
constexpr std::array<KnownSlot, 10> kKnownSlots = {
    {{4, 28}, {5, 30}, {6, 35}, {7, 35}, {8, 38}, {9, 39}, {10, 44}, {11, 44}, {12, 46}, {13, 48}}};

// Byte offsets into torch's TraceEntry; the same from 2.2 on, except for what follows the size.
constexpr std::size_t kAction = 0;
constexpr std::size_t kDevice = 4;
constexpr std::size_t kAddress = 8;
constexpr std::size_t kStream = 32;
constexpr std::size_t kSize = 40;
constexpr std::size_t kTimeBefore28 = 48;
constexpr std::size_t kPool = 48;
constexpr std::size_t kTime = 64;

struct TraceEntry;

// What torch takes: a std::function<void(const TraceEntry&)> as GNU's standard library lays it out,
// with which torch is built. We may be built with another.
struct Tracker {
  enum class Task : int { type, pointer, copy, destroy };
  alignas(void*) std::array<std::byte, 16> storage{};
  bool (*manage)(void* to, const void* from, Task task) = nullptr;
  void (*call)(const void* storage, const TraceEntry& entry) = nullptr;
};
static_assert(sizeof(Tracker) == 4 * sizeof(void*));

constexpr std::size_t kMostSnapshots = 64;

std::atomic<Emitter*> g_cuda_emitter{nullptr};
bool g_has_pools = false;
std::array<SeenSnapshot, kMostSnapshots> g_snapshots;
std::atomic<std::size_t> g_snapshot_count{0};

template <typename T>
T field(const TraceEntry& entry, std::size_t offset) {
  T value;
  std::memcpy(&value, reinterpret_cast<const char*>(&entry) + offset, sizeof(T));
  return value;
}

// One entry as the emitter needs it, read in place.
struct CudaEvent {
  const TraceEntry& entry;
  Action action;

  [[nodiscard]] bool is_alloc() const { return action == Action::alloc; }
  [[nodiscard]] bool is_free_requested() const { return action == Action::free_requested; }
  [[nodiscard]] DeviceSlot device() const { return torch_slot(field<std::int8_t>(entry, kDevice)); }
  [[nodiscard]] std::uint64_t address() const { return field<std::uint64_t>(entry, kAddress); }
  [[nodiscard]] std::uint64_t ticks() const {
    return field<std::uint64_t>(entry, g_has_pools ? kTime : kTimeBefore28);
  }
  [[nodiscard]] StackUse stack_use() const {
    if (action == Action::free_completed) return StackUse::if_paired;
    return action == Action::snapshot ? StackUse::none : StackUse::walk;
  }
  void write(EventRecord& record) const {
    record.action = static_cast<std::uint8_t>(action);
    record.device = device();
    record.address = address();
    record.size_bytes = field<std::uint64_t>(entry, kSize);
    record.stream = field<std::uint64_t>(entry, kStream);
    record.pool_graph =
        g_has_pools ? static_cast<std::uint32_t>(field<std::uint64_t>(entry, kPool)) : 0;
    record.pool_user =
        g_has_pools ? static_cast<std::uint32_t>(field<std::uint64_t>(entry, kPool + 8)) : 0;
    record.ticks = ticks();
  }
};

Action action_of(const TraceEntry& entry) {
  return static_cast<Action>(std::clamp<std::int32_t>(field<std::int32_t>(entry, kAction), 0,
                                                      static_cast<std::int32_t>(Action::other)));
}

[[gnu::noinline]] void keep_snapshot(const CudaEvent& event) {
  const std::size_t row = g_snapshot_count.load(std::memory_order_relaxed);
  if (row < kMostSnapshots)
    g_snapshots[row] = {event.address(), field<std::uint64_t>(event.entry, kSize), event.ticks()};
  g_snapshot_count.store(row + 1, std::memory_order_release);
}

// What the totals that torch reports (cuda_report.h) leave out: when a block that waited for a
// stream is finally free, and what the pool reserves and returns without handing out a block.
[[gnu::noinline]] void count(Ledger& ledger, const TraceEntry& entry) {
  const auto size_bytes = static_cast<std::int64_t>(field<std::uint64_t>(entry, kSize));
  switch (static_cast<Action>(field<std::int32_t>(entry, kAction))) {
    case Action::free_completed:
      return ledger.on_free_completed(field<std::uint64_t>(entry, kAddress));
    case Action::segment_alloc:
    case Action::segment_map:
      return ledger.on_reserved_change(size_bytes);
    case Action::segment_free:
    case Action::segment_unmap:
      return ledger.on_reserved_change(-size_bytes);
    default:
      return;
  }
}

// Runs under the device's lock.
[[gnu::hot]] void on_entry(const TraceEntry& entry) {
  const auto device = static_cast<DeviceSlot>(field<std::int8_t>(entry, kDevice));
  if (is_cuda_slot(device)) {
    if (Ledger* ledger = counting_ledger(device); ledger != nullptr) count(*ledger, entry);
  }
  Emitter* emitter = g_cuda_emitter.load(std::memory_order_acquire);
  if (emitter == nullptr) return;
  const CudaEvent event = {entry, action_of(entry)};
  if (event.action == Action::snapshot) [[unlikely]]
    keep_snapshot(event);
  emitter->emit(event, event.stack_use());
}

// Nothing is stored, so there is nothing to copy or destroy; torch never asks for the rest.
bool manage_tracker(void* /*to*/, const void* /*from*/, Tracker::Task /*task*/) { return false; }
void call_tracker(const void* /*storage*/, const TraceEntry& entry) { on_entry(entry); }

constexpr char kOtherAllocator[] = "the allocator in use is not torch's own";

Error cannot_attach_tracker(std::string message) {
  return {ErrorCode::environment, std::move(message), "", ""};
}

void* loaded(const char* library) { return ::dlopen(library, RTLD_LAZY | RTLD_NOLOAD); }

std::optional<std::size_t> scan_slot() {
  for (const char* library : kSisterLibraries) {
    void* handle = loaded(library);
    if (handle == nullptr) continue;
    const auto* table = static_cast<void* const*>(::dlsym(handle, kSisterTable));
    if (table == nullptr) continue;
    for (const char* name : kSisterFunctions) {
      const void* function = ::dlsym(handle, name);
      if (function == nullptr) continue;
      const auto* first = table + kTableHead;
      const auto* found = std::find(first, first + kMostSlots, function);
      if (found != first + kMostSlots) return static_cast<std::size_t>(found - first);
    }
  }
  return std::nullopt;
}

Status check_slot(std::size_t slot, TorchVersionNumber version) {
  const bool is_old =
      version.major < 2 || (version.major == 2 && version.minor < kKnownSlots.front().minor);
  if (is_old) return cannot_attach_tracker("torch is older than 2.4");
  const auto* known =
      std::find_if(kKnownSlots.begin(), kKnownSlots.end(),
                   [&](const KnownSlot& row) { return row.minor == version.minor; });
  if (version.major == 2 && known != kKnownSlots.end() && known->slot != slot) {
    return cannot_attach_tracker("torch's allocator has its tracker in vtable slot " +
                                 std::to_string(slot) + "; in this version it should be " +
                                 std::to_string(known->slot));
  }
  return Done{};
}

Result<void*> find_allocator() {
  void* library = loaded("libc10_cuda.so");
  if (library == nullptr) return cannot_attach_tracker("libc10_cuda is not loaded");
  auto* pointer = static_cast<std::atomic<void*>*>(::dlsym(library, kAllocator));
  void* allocator = pointer == nullptr ? nullptr : pointer->load();
  if (allocator == nullptr)
    return cannot_attach_tracker("torch's allocator is not exported, or does not exist yet");
  return allocator;
}

// The function must be in the library of torch's own allocator; other allocators have no working
// one.
bool is_native(const void* function) {
  Dl_info info{};
  if (::dladdr(function, &info) == 0 || info.dli_fname == nullptr) return false;
  const std::string_view path = info.dli_fname;
  return path.substr(path.find_last_of('/') + 1) == "libc10_cuda.so";
}

// Where torch's own allocator takes a tracker.
struct TrackerEntrance {
  void* allocator = nullptr;
  void (*attach)(void* allocator, Tracker* tracker) = nullptr;
};

Result<TrackerEntrance> find_entrance(TorchVersionNumber version) {
  const std::optional<std::size_t> slot = scan_slot();
  if (!slot)
    return cannot_attach_tracker("torch's allocator tracker was not found by its exported name");
  if (Status checked = check_slot(*slot, version); !checked) return checked.error();
  Result<void*> allocator = find_allocator();
  if (!allocator) return allocator.error();
  void* const* table = *static_cast<void* const* const*>(allocator.value());
  if (!is_native(table[*slot])) return cannot_attach_tracker(kOtherAllocator);
  return TrackerEntrance{allocator.value(),
                         reinterpret_cast<void (*)(void*, Tracker*)>(table[*slot])};
}

Status attach(TorchVersionNumber version) {
  const Result<TrackerEntrance> entrance = find_entrance(version);
  if (!entrance) return entrance.error();
  g_has_pools = version.major > 2 || version.minor >= 8;
  // In the C++ ABI an argument like this is passed as the address of a copy.
  Tracker tracker;
  tracker.manage = manage_tracker;
  tracker.call = call_tracker;
  try {
    entrance->attach(entrance->allocator, &tracker);
  } catch (const std::exception&) {
    // cudaMallocAsync's is in the same library, and throws.
    return cannot_attach_tracker(kOtherAllocator);
  }
  return Done{};
}

std::mutex g_attaching_tracker;
bool g_is_tracker_attached = false;
bool g_was_tracker_heard = false;

}  // namespace

Status check_cuda_tracker(TorchVersionNumber version) {
  const Result<TrackerEntrance> entrance = find_entrance(version);
  if (!entrance) return entrance.error();
  return Done{};
}

Status attach_cuda_tracker(TorchVersionNumber version) {
  const std::lock_guard lock(g_attaching_tracker);
  if (g_is_tracker_attached) return Done{};
  Status attached = attach(version);
  g_is_tracker_attached = attached.ok();
  return attached;
}

bool was_tracker_heard() {
  const bool is_heard = g_snapshot_count.load(std::memory_order_acquire) > 0;
  const std::lock_guard lock(g_attaching_tracker);
  g_was_tracker_heard = g_was_tracker_heard || is_heard;
  if (!g_was_tracker_heard) g_is_tracker_attached = false;
  return is_heard;
}

void set_cuda_emitter(Emitter* emitter) {
  g_cuda_emitter.store(emitter, std::memory_order_release);
}

void forget_snapshots() { g_snapshot_count.store(0, std::memory_order_release); }

std::vector<SeenSnapshot> seen_snapshots() {
  const std::size_t count =
      std::min(g_snapshot_count.load(std::memory_order_acquire), kMostSnapshots);
  return {g_snapshots.begin(), g_snapshots.begin() + static_cast<std::ptrdiff_t>(count)};
}

}  // namespace gpumemprof::capture
