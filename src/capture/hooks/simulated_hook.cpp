#include "capture/hooks/simulated_hook.h"

#include <atomic>

#include "capture/ticks.h"

namespace gpumemprof::capture {
namespace {

std::atomic<Emitter*> g_simulated_emitter{nullptr};

struct TimedEvent {
  const SimulatedEvent& event;
  DeviceSlot slot;
  std::uint64_t ticks = read_ticks();

  [[nodiscard]] bool is_alloc() const { return event.action == Action::alloc; }
  [[nodiscard]] bool is_free_requested() const { return event.action == Action::free_requested; }
  [[nodiscard]] DeviceSlot device() const { return slot; }
  [[nodiscard]] std::uint64_t address() const { return event.address; }
  void write(EventRecord& record) const {
    record.action = static_cast<std::uint8_t>(event.action);
    record.device = slot;
    record.ticks = ticks;
    record.address = event.address;
    record.size_bytes = event.size_bytes;
    record.stream = event.stream;
    record.pool_graph = static_cast<std::uint32_t>(event.pool.graph);
    record.pool_user = static_cast<std::uint32_t>(event.pool.user);
  }
};

}  // namespace

void set_simulated_emitter(Emitter* emitter) {
  g_simulated_emitter.store(emitter, std::memory_order_release);
}

void emit_simulated(const SimulatedEvent& event) {
  Emitter* emitter = g_simulated_emitter.load(std::memory_order_acquire);
  const std::optional<DeviceSlot> slot = cuda_slot(event.device);
  if (emitter == nullptr || !slot) return;
  const StackUse use =
      event.action == Action::free_completed ? StackUse::if_paired : StackUse::walk;
  emitter->emit(TimedEvent{event, *slot}, use);
}

}  // namespace gpumemprof::capture
