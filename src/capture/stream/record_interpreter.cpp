#include "capture/stream/record_interpreter.h"

namespace gpumemprof::capture {
namespace {

bool changes_reserved_memory(Action action) {
  return action == Action::segment_alloc || action == Action::segment_free ||
         action == Action::segment_map || action == Action::segment_unmap;
}

}  // namespace

void RecordInterpreter::take(const Record& record) {
  switch (record.kind) {
    case RecordKind::event:
      return take(record.event);
    case RecordKind::frames:
      return stacks_.take(record.frames);
    case RecordKind::code:
      return stacks_.take(record.code);
    case RecordKind::node:
      return take(record.node);
    case RecordKind::module:
      return stacks_.take(record.module);
    case RecordKind::native:
      return stacks_.take(record.native);
    case RecordKind::nothing:
      return;
  }
}

void RecordInterpreter::take(const EventRecord& record) {
  DrainedEvent event;
  event.action = static_cast<Action>(record.action);
  event.device = record.device;
  event.tag = record.tag;
  event.time_ns = clock_.unix_ns(record.ticks);
  event.address = record.address;
  event.size_bytes = record.size_bytes;
  event.stream = record.stream;
  event.pool = {record.pool_graph, record.pool_user};
  if (record.stack == StackChange::moved) stacks_.move(record.thread, record.instruction);
  if (record.stack != StackChange::none) event.stack = stacks_.stack_of(record.thread);
  if (record.native != kNoNative)
    event.native_stack = stacks_.native_stack_of(record.thread, record.native, event.stack);
  if (event.action == Action::alloc) event.forward_stack = forward_stacks_.of(record.thread);
  if (event.action == Action::alloc || event.action == Action::oom)
    event.module = stacks_.module_of(event.stack, event.forward_stack);
  if (event.device == kCpuSlot)
    return event.action == Action::alloc ? take_cpu_alloc(event) : take_cpu_free(event);
  if (event.action == Action::snapshot) return outputs_.take_snapshot();
  has_pool_changed_ |= changes_reserved_memory(event.action);
  outputs_.deliver(event, stacks_);
}

void RecordInterpreter::take(const NodeRecord& record) {
  forward_stacks_.enter_epoch(record.epoch);
  if (record.is_running) return forward_stacks_.runs(record.thread, record.node);
  if (record.stack == StackChange::moved) stacks_.move(record.thread, record.instruction);
  const bool has_stack = record.stack != StackChange::none;
  forward_stacks_.made(record.thread, record.node, record.end_before,
                       has_stack ? stacks_.stack_of(record.thread) : StackId());
}

void RecordInterpreter::take(const LossEntry& entry) {
  if (entry.address == 0) {
    LossRun lost;
    lost.device = entry.device;
    lost.epoch = entry.epoch;
    lost.counts = entry.lost;
    lost.first_time_ns = clock_.unix_ns(entry.first_ticks);
    lost.last_time_ns = clock_.unix_ns(entry.last_ticks);
    return outputs_.deliver(lost);
  }
  DrainedEvent event;
  event.device = kCpuSlot;
  event.time_ns = clock_.unix_ns(entry.first_ticks);
  event.address = entry.address;
  take_cpu_free(event);
}

void RecordInterpreter::take_cpu_alloc(DrainedEvent& event) {
  // It was freed by a call that is not redirected to us.
  if (const CpuBlock* known = cpu_blocks_.find(event.address); known != nullptr) {
    DrainedEvent unseen = event;
    unseen.stack = unseen.native_stack = StackId();
    unseen.is_inferred = true;
    deliver_cpu_free(unseen, *known);
  }
  Epoch ignored = 0;
  losses_.take_lost(event.address, ignored);
  event.newest_recording = outputs_.newest();
  cpu_blocks_.insert_or_assign(event.address, {event.size_bytes, event.newest_recording});
  outputs_.deliver(event, stacks_);
}

void RecordInterpreter::take_cpu_free(const DrainedEvent& event) {
  const CpuBlock* known = cpu_blocks_.find(event.address);
  if (known != nullptr) {
    deliver_cpu_free(event, *known);
    cpu_blocks_.erase(event.address);
    return;
  }
  LossRun lost;
  // Otherwise it is not tensor memory, or was allocated before recording began.
  if (!losses_.take_lost(event.address, lost.epoch)) return;
  lost.device = event.device;
  lost.counts.frees = 1;
  lost.first_time_ns = lost.last_time_ns = event.time_ns;
  outputs_.deliver(lost);
}

// A CPU tensor's free is complete at once.
void RecordInterpreter::deliver_cpu_free(DrainedEvent event, const CpuBlock& block) {
  event.size_bytes = block.size_bytes;
  event.newest_recording = block.newest_recording;
  event.action = Action::free_requested;
  outputs_.deliver(event, stacks_);
  event.action = Action::free_completed;
  outputs_.deliver(event, stacks_);
}

void RecordInterpreter::forget_live_memory() { cpu_blocks_.clear(); }

}  // namespace gpumemprof::capture
