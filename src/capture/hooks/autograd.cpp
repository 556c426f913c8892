#include "capture/hooks/autograd.h"

#include <dlfcn.h>

#include <array>
#include <atomic>
#include <cstring>
#include <mutex>

#include "capture/foreign_memory.h"
#include "capture/hooks/call_table.h"

namespace gpumemprof::capture {
namespace {

constexpr char kAutogradLibrary[] = "libtorch_cpu.so";
constexpr char kTakeNumber[] = "_ZN2at15sequence_number17get_and_incrementEv";
constexpr char kThreadNumber[] = "_ZN2at14RecordFunction15currentThreadIdEv";
constexpr char kRunNode[] =
    "_ZN5torch8autograd6Engine17evaluate_functionERSt10shared_ptrINS0_9GraphTaskEEPNS0_4NodeERNS0_"
    "11InputBufferERKS2_INS0_10ReadyQueueEE";

// Byte offsets into torch's Node.
struct NodeLayout {
  std::size_t sequence = 0;
  std::size_t thread = 0;
};
// After the vtable pointer, a node has a reference count (torch 2.13) or a pointer to itself
// (earlier).
constexpr std::array<NodeLayout, 2> kLayouts = {{{16, 40}, {24, 48}}};
// Byte offset into the Python object: its header, then the pointer to the node.
constexpr std::size_t kNodeOfObject = 16;

using RunNode = void (*)(void*, void*, void*, void*, void*);

std::uint64_t (*g_take_number)() = nullptr;
std::uint64_t (*g_thread_number)() = nullptr;
RunNode g_run_node = nullptr;
NodeLayout g_node_layout;  // valid once g_is_node_layout_valid
std::atomic<bool> g_is_node_layout_valid{false};
std::atomic<Emitter*> g_autograd_emitter{nullptr};
thread_local NodeKey t_last_created;  // before validation

std::uint64_t word_at(const void* object, std::size_t offset) {
  std::uint64_t word = 0;
  std::memcpy(&word, static_cast<const char*>(object) + offset, sizeof(word));
  return word;
}

NodeKey read_node(const void* node, const NodeLayout& layout) {
  const std::uint64_t sequence = word_at(node, layout.sequence);
  if (sequence == kNoSequence) return {};
  return {sequence, static_cast<std::uint32_t>(word_at(node, layout.thread))};
}

const void* node_behind(std::uintptr_t python_object) {
  return pointer_at<const void>(read_raw<std::uintptr_t>(python_object + kNodeOfObject));
}

// Replaces torch's function: a node is being created.
[[gnu::hot]] std::uint64_t take_number_hook() {
  const std::uint64_t number = g_take_number();
  Emitter* emitter = g_autograd_emitter.load(std::memory_order_acquire);
  if (emitter == nullptr) return number;
  if (g_is_node_layout_valid.load(std::memory_order_acquire)) [[likely]] {
    emitter->note_node(number, g_thread_number);
  } else {
    t_last_created = {number, static_cast<std::uint32_t>(g_thread_number())};
  }
  return number;
}

// Replaces torch's function: a node is run. One node may run others: a backward inside a backward.
[[gnu::hot]] void run_node_hook(void* engine, void* task, void* node, void* inputs, void* queue) {
  Emitter* emitter = g_autograd_emitter.load(std::memory_order_acquire);
  NodeKey* running = emitter == nullptr || !g_is_node_layout_valid.load(std::memory_order_acquire)
                         ? nullptr
                         : emitter->running_node();
  if (running == nullptr) return g_run_node(engine, task, node, inputs, queue);
  struct Restored {
    NodeKey* running;
    NodeKey outer = *running;
    ~Restored() { *running = outer; }
  } const restored{running};
  *running = read_node(node, g_node_layout);
  g_run_node(engine, task, node, inputs, queue);
}

template <typename Function>
bool find(void* library, const char* name, Function& function) {
  function = reinterpret_cast<Function>(::dlsym(library, name));
  return function != nullptr;
}

template <typename Function>
bool redirect(const char* library, const char* name, Function function) {
  return redirect_calls(library, name, reinterpret_cast<void*>(function)) > 0;
}

std::mutex g_attaching;
bool g_is_attached = false;
std::uint64_t g_libraries_seen = 0;

void follow_libraries_locked() {
  const std::uint64_t loaded = loaded_library_count();
  if (loaded == g_libraries_seen) return;
  redirect_all_calls(kTakeNumber, reinterpret_cast<void*>(take_number_hook));
  g_libraries_seen = loaded;
}

Error cannot_hook_autograd(std::string message) {
  return {ErrorCode::environment, std::move(message), kAutogradLibrary, ""};
}

}  // namespace

Status attach_autograd_hook() {
  const std::lock_guard lock(g_attaching);
  if (g_is_attached) return Done{};
  void* library = ::dlopen(kAutogradLibrary, RTLD_LAZY | RTLD_NOLOAD);
  if (library == nullptr) return cannot_hook_autograd("torch's library is not loaded");
  if (!find(library, kTakeNumber, g_take_number) || !find(library, kRunNode, g_run_node) ||
      !find(library, kThreadNumber, g_thread_number)) {
    return cannot_hook_autograd(
        "torch does not export the functions that number and run autograd's nodes");
  }
  if (!redirect(kAutogradLibrary, kTakeNumber, take_number_hook) ||
      !redirect(kAutogradLibrary, kRunNode, run_node_hook))
    return cannot_hook_autograd("torch numbers or runs autograd's nodes in an unknown way");
  g_is_attached = true;
  follow_libraries_locked();
  return Done{};
}

void follow_libraries() {
  const std::lock_guard lock(g_attaching);
  if (g_is_attached) follow_libraries_locked();
}

Status validate_autograd(ExpectedNode first, ExpectedNode second) {
  for (const NodeLayout& layout : kLayouts) {
    const NodeKey before = read_node(node_behind(first.grad_fn), layout);
    const NodeKey after = read_node(node_behind(second.grad_fn), layout);
    if (before.sequence != first.sequence || after.sequence != second.sequence) continue;
    if (before.thread != after.thread || after != t_last_created) continue;
    g_node_layout = layout;
    g_is_node_layout_valid.store(true, std::memory_order_release);
    return Done{};
  }
  return cannot_hook_autograd("the memory layout of torch's autograd nodes is unknown");
}

void set_autograd_emitter(Emitter* emitter) {
  g_autograd_emitter.store(emitter, std::memory_order_release);
}

}  // namespace gpumemprof::capture
