#include "capture/hooks/communicators.h"

#include <dlfcn.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <map>
#include <mutex>

#include "capture/hooks/call_table.h"
#include "capture/ledger/card.h"

namespace gpumemprof::capture {
namespace {

// torch's library that calls NCCL.
constexpr char kNcclCaller[] = "libtorch_cuda.so";
constexpr int kNcclSuccess = 0;
constexpr int kTotalBytes = 3;  // ncclStatGpuMemTotal

using Comm = void*;
using MemStats = int (*)(Comm, int, std::uint64_t*);
using CommDevice = int (*)(Comm, int*);
MemStats g_mem_stats = nullptr;
CommDevice g_comm_device = nullptr;

struct CardBytes {
  std::int64_t inferred_bytes = 0;
  // The most at any time: many programs end their communicators before they end.
  std::uint64_t most_bytes = 0;
  bool is_measured = false;
  std::uint32_t made = 0;
  std::uint32_t alive = 0;
};

struct Watched {
  std::mutex mutex;  // also held while NCCL is asked, so that no communicator ends meanwhile
  Cards cards;
  std::map<DeviceIndex, CardBytes> by_device;
  std::map<Comm, DeviceIndex> alive;
};

// A forked child has its own: the parent's mutex may have been locked by a thread it does not have.
Watched& watched() {
  static std::atomic<Watched*> current{nullptr};
  static std::atomic<pid_t> owner{0};
  Watched* found = current.load(std::memory_order_acquire);
  if (found != nullptr && owner.load(std::memory_order_acquire) == ::getpid()) return *found;
  static std::mutex making;
  const std::lock_guard lock(making);
  if (current.load() == nullptr || owner.load() != ::getpid()) {
    current.store(new Watched, std::memory_order_release);
    owner.store(::getpid(), std::memory_order_release);
  }
  return *current.load();
}

// What this process uses of each card; what all use where the driver does not tell them apart.
std::map<DeviceIndex, std::int64_t> used_bytes(const Cards& cards) {
  std::map<DeviceIndex, std::int64_t> found;
  for (const DeviceSample& sample : cards.sample()) {
    const std::uint64_t bytes =
        sample.process_bytes == kUnknownBytes ? sample.used_bytes : sample.process_bytes;
    if (bytes != kUnknownBytes) found[sample.device] = static_cast<std::int64_t>(bytes);
  }
  return found;
}

// Looks at what each card's communicators hold now. With the mutex held.
void look_at_communicators(Watched& state) {
  for (auto& [device, card] : state.by_device) {
    std::uint64_t told = 0;
    bool has_told = g_mem_stats != nullptr;
    card.alive = 0;
    for (const auto& [comm, place] : state.alive) {
      if (place != device) continue;
      ++card.alive;
      std::uint64_t bytes = 0;
      has_told = has_told && g_mem_stats(comm, kTotalBytes, &bytes) == kNcclSuccess;
      told += bytes;
    }
    if (card.alive == 0) continue;
    // What the library says replaces what was inferred before.
    if (has_told && !card.is_measured) card.most_bytes = 0;
    card.is_measured = card.is_measured || has_told;
    const auto inferred =
        static_cast<std::uint64_t>(std::max<std::int64_t>(card.inferred_bytes, 0));
    if (card.is_measured == has_told)
      card.most_bytes = std::max(card.most_bytes, has_told ? told : inferred);
  }
}

// Calls `pass_on`, and counts what the cards' use grew by meanwhile. The mutex is not held during
// the call, which waits for other ranks.
template <typename PassOn>
int call_measured(const PassOn& pass_on) {
  Watched& state = watched();
  std::map<DeviceIndex, std::int64_t> before;
  {
    const std::lock_guard lock(state.mutex);
    before = used_bytes(state.cards);
  }
  const int result = pass_on();
  const std::lock_guard lock(state.mutex);
  for (const auto& [device, bytes] : used_bytes(state.cards)) {
    const auto found = before.find(device);
    if (found != before.end()) state.by_device[device].inferred_bytes += bytes - found->second;
  }
  look_at_communicators(state);
  return result;
}

void note_made(const Comm* comm, int result) {
  // A communicator that is made without waiting has no device yet; it counts for the only card.
  if (comm == nullptr || *comm == nullptr || result != kNcclSuccess) return;
  int device = 0;
  if (g_comm_device != nullptr && g_comm_device(*comm, &device) != kNcclSuccess) device = 0;
  Watched& state = watched();
  const std::lock_guard lock(state.mutex);
  state.alive[*comm] = static_cast<DeviceIndex>(device);
  ++state.by_device[static_cast<DeviceIndex>(device)].made;
  look_at_communicators(state);
}

struct UniqueId {  // ncclUniqueId, which is passed by value
  std::array<char, 128> bytes;
};
int (*g_init)(Comm*, int, UniqueId, int) = nullptr;
int (*g_init_config)(Comm*, int, UniqueId, int, void*) = nullptr;
int (*g_init_scalable)(Comm*, int, int, int, void*, void*) = nullptr;
int (*g_split)(Comm, int, int, Comm*, void*) = nullptr;
int (*g_destroy)(Comm) = nullptr;
int (*g_abort)(Comm) = nullptr;

int on_init(Comm* comm, int ranks, UniqueId id, int rank) {
  const int result = call_measured([&] { return g_init(comm, ranks, id, rank); });
  note_made(comm, result);
  return result;
}

int on_init_config(Comm* comm, int ranks, UniqueId id, int rank, void* config) {
  const int result = call_measured([&] { return g_init_config(comm, ranks, id, rank, config); });
  note_made(comm, result);
  return result;
}

int on_init_scalable(Comm* comm, int ranks, int rank, int id_count, void* ids, void* config) {
  const int result =
      call_measured([&] { return g_init_scalable(comm, ranks, rank, id_count, ids, config); });
  note_made(comm, result);
  return result;
}

int on_split(Comm comm, int color, int key, Comm* part, void* config) {
  const int result = call_measured([&] { return g_split(comm, color, key, part, config); });
  note_made(part, result);
  return result;
}

void forget_communicator(Comm comm) {
  Watched& state = watched();
  const std::lock_guard lock(state.mutex);
  look_at_communicators(state);
  state.alive.erase(comm);
}

int on_destroy(Comm comm) {
  forget_communicator(comm);
  return call_measured([&] { return g_destroy(comm); });
}

int on_abort(Comm comm) {
  forget_communicator(comm);
  return call_measured([&] { return g_abort(comm); });
}

// Buffers and kernels are made by the first collectives, of each kind. Later ones cost one load.
constexpr int kMostMeasured = 3;
struct FirstCalls {
  std::atomic<int> left{kMostMeasured};
  bool take() {
    if (left.load(std::memory_order_relaxed) <= 0) return false;
    return left.fetch_sub(1, std::memory_order_relaxed) > 0;
  }
};
enum Collective : std::uint8_t {
  all_reduce,
  broadcast,
  reduce,
  all_gather,
  reduce_scatter,
  all_to_all,
  group_end,
  collective_count,
};
std::array<FirstCalls, collective_count> g_first;

template <Collective kind, typename... Arguments>
struct Measured {
  static inline int (*original)(Arguments...) = nullptr;
  static int hook(Arguments... arguments) {
    if (!g_first[kind].take()) return original(arguments...);
    return call_measured([&] { return original(arguments...); });
  }
};
using AllReduce = Measured<all_reduce, const void*, void*, std::size_t, int, int, Comm, void*>;
using Broadcast = Measured<broadcast, const void*, void*, std::size_t, int, int, Comm, void*>;
using Reduce = Measured<reduce, const void*, void*, std::size_t, int, int, int, Comm, void*>;
using AllGather = Measured<all_gather, const void*, void*, std::size_t, int, Comm, void*>;
using ReduceScatter =
    Measured<reduce_scatter, const void*, void*, std::size_t, int, int, Comm, void*>;
using AllToAll = Measured<all_to_all, const void*, void*, std::size_t, int, Comm, void*>;
using GroupEnd = Measured<group_end>;

template <typename Function>
void find_in_nccl(const char* name, Function& function) {
  function = reinterpret_cast<Function>(::dlsym(RTLD_DEFAULT, name));
  if (function != nullptr) return;
  // A Python extension's libraries are not in the global scope.
  if (void* nccl = ::dlopen("libnccl.so.2", RTLD_LAZY | RTLD_NOLOAD); nccl != nullptr)
    function = reinterpret_cast<Function>(::dlsym(nccl, name));
}

template <typename Function>
void redirect_nccl(const char* name, Function& original, Function hook) {
  find_in_nccl(name, original);
  if (original != nullptr) redirect_calls(kNcclCaller, name, reinterpret_cast<void*>(hook));
}

void attach_nccl() {
  find_in_nccl("ncclCommMemStats", g_mem_stats);
  find_in_nccl("ncclCommCuDevice", g_comm_device);
  redirect_nccl("ncclCommInitRank", g_init, on_init);
  redirect_nccl("ncclCommInitRankConfig", g_init_config, on_init_config);
  redirect_nccl("ncclCommInitRankScalable", g_init_scalable, on_init_scalable);
  redirect_nccl("ncclCommSplit", g_split, on_split);
  redirect_nccl("ncclCommDestroy", g_destroy, on_destroy);
  redirect_nccl("ncclCommAbort", g_abort, on_abort);
  redirect_nccl("ncclAllReduce", AllReduce::original, AllReduce::hook);
  redirect_nccl("ncclBroadcast", Broadcast::original, Broadcast::hook);
  redirect_nccl("ncclReduce", Reduce::original, Reduce::hook);
  redirect_nccl("ncclAllGather", AllGather::original, AllGather::hook);
  redirect_nccl("ncclReduceScatter", ReduceScatter::original, ReduceScatter::hook);
  redirect_nccl("ncclAlltoAll", AllToAll::original, AllToAll::hook);
  redirect_nccl("ncclGroupEnd", GroupEnd::original, GroupEnd::hook);
}

}  // namespace

void watch_communicators(DeviceIndex device, const std::string& uuid) {
  static std::once_flag once;
  std::call_once(once, attach_nccl);
  if (g_init_config == nullptr && g_init == nullptr) return;
  Watched& state = watched();
  const std::lock_guard lock(state.mutex);
  state.by_device.try_emplace(device);
  state.cards.watch(device, uuid);
}

std::vector<std::pair<std::string, std::string>> communicator_facts() {
  std::vector<std::pair<std::string, std::string>> facts;
  Watched& state = watched();
  const std::lock_guard lock(state.mutex);
  look_at_communicators(state);
  for (const auto& [device, card] : state.by_device) {
    const std::string name = "device " + std::to_string(device) + " nccl_";
    facts.emplace_back(name + "communicators", std::to_string(card.made));
    if (card.made == 0) continue;
    facts.emplace_back(name + "bytes", std::to_string(card.most_bytes));
    facts.emplace_back(name + "provenance", card.is_measured ? "measured" : "inferred");
  }
  return facts;
}

}  // namespace gpumemprof::capture
