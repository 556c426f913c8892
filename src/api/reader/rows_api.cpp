// Devices, and what is read row by row: events, allocations, stacks.
#include "analysis/code/user_frame.h"
#include "api/reader/opened_recording.h"

namespace gpumemprof::api {
namespace {

gpumemprof_device device_row(const Store& store, const OpenedDevice& opened) {
  const DeviceRecord& record = opened.record();
  const DeviceReplay& replay = opened.replay();
  const DeviceFacts& facts = store.facts().device(record.device);
  gpumemprof_device row{};
  row.index = record.device;
  row.run_kind = static_cast<std::int32_t>(opened.sources().kind);
  row.name = text_of(opened.name());
  row.card_name = text_of(facts.name);
  row.card_total_bytes = facts.total_bytes.value_or(GPUMEMPROF_UNKNOWN);
  row.events = record.events.size();
  row.allocations = record.allocations.size();
  row.has_pool = opened.has_pool() ? 1 : 0;
  row.has_history = replay.has_history ? 1 : 0;
  row.has_labels = opened.sources().has_labels ? 1 : 0;
  row.peak = opened.shown(replay.peak);
  row.peak_event = replay.peak_event;
  row.peak_reserved_bytes = opened.has_pool() ? replay.peak_reserved_bytes : GPUMEMPROF_UNKNOWN;
  row.peak_reserved_event = replay.peak_reserved_event;
  row.start = opened.shown(replay.start);
  row.end = opened.shown(replay.end.totals);
  row.exact_from_event = replay.exact_from_event.value_or(GPUMEMPROF_NONE);
  row.out_of_memory = replay.counters.ooms;
  row.steps = opened.sources().steps.size();
  row.lead_in_events = record.lead_in;
  return row;
}

gpumemprof_text module_path(const Store& store, std::uint32_t number) {
  const ModuleLabel* module = store.module(number);
  return module == nullptr ? gpumemprof_text{"", 0} : text_of(store.text(module->path));
}

gpumemprof_event event_row(const Store& store, const Event& event) {
  gpumemprof_event row{};
  row.action = static_cast<std::int32_t>(event.action);
  row.stack = event.stack.index;
  row.forward_stack = event.forward_stack.index;
  row.address = event.address;
  row.size_bytes = event.size_bytes;
  row.stream = store.stream_handle(event.stream);
  row.time_ns = event.time_ns;
  row.module = module_path(store, event.module);
  row.compile_context = text_of(store.text(event.compile_context));
  return row;
}

gpumemprof_allocation allocation_row(const Store& store, const DeviceRecord& record,
                                     std::size_t index) {
  const AllocationColumns& rows = record.allocations;
  const AllocationLabels& labels = record.labels;
  gpumemprof_allocation row{};
  row.address = rows.address[index];
  row.size_bytes = rows.size_bytes[index];
  row.requested_bytes = rows.requested_bytes[index];
  row.alloc_event = rows.alloc_event[index];
  row.free_event = rows.free_requested_event[index];
  row.reusable_event = rows.free_completed_event[index];
  row.stack = rows.stack[index].index;
  row.stream = store.stream_handle(rows.stream[index]);
  row.source = static_cast<std::int32_t>(labels.source[index]);
  row.is_measured = labels.is_measured(index) ? 1 : 0;
  row.name = labels.name.empty() ? text_of("") : text_of(store.text(labels.name[index]));
  return row;
}

gpumemprof_frame frame_row(const Store& store, FrameId id) {
  const Frame& frame = store.frame(id);
  return {text_of(store.text(frame.name)), text_of(store.text(frame.file)), frame.line};
}

}  // namespace
}  // namespace gpumemprof::api

using namespace gpumemprof;

int gpumemprof_get_device(const gpumemprof_recording* recording, uint32_t device,
                          gpumemprof_device* out, size_t out_size, gpumemprof_error** error) {
  return api::guarded(0, error, [&] {
    if (recording == nullptr) {
      api::report(error, api::no_object("recording"));
      return 0;
    }
    if (const api::OpenedDevice* opened = recording->device(device)) {
      api::fill(out, out_size, api::device_row(recording->recording->store(), *opened));
      return 1;
    }
    api::report(error, {ErrorCode::usage, "there is no device in row " + std::to_string(device),
                        recording->recording->path(),
                        "it has " + std::to_string(recording->devices.size()) + " devices"});
    return 0;
  });
}

size_t gpumemprof_read_events(const gpumemprof_recording* recording, uint32_t device,
                              uint64_t first, gpumemprof_event* rows, size_t count,
                              size_t row_size) {
  const api::OpenedDevice* opened = api::device_of(recording, device);
  if (opened == nullptr) return 0;
  return api::guarded<std::size_t>(0, nullptr, [&] {
    const EventColumns& events = opened->record().events;
    const Store& store = recording->recording->store();
    return api::fill_rows(rows, count, row_size, first, events.size(), [&](std::uint64_t row) {
      return api::event_row(store, events.row(static_cast<std::size_t>(row)));
    });
  });
}

size_t gpumemprof_read_allocations(const gpumemprof_recording* recording, uint32_t device,
                                   uint64_t first, gpumemprof_allocation* rows, size_t count,
                                   size_t row_size) {
  const api::OpenedDevice* opened = api::device_of(recording, device);
  if (opened == nullptr) return 0;
  return api::guarded<std::size_t>(0, nullptr, [&] {
    const DeviceRecord& record = opened->record();
    const Store& store = recording->recording->store();
    return api::fill_rows(
        rows, count, row_size, first, record.allocations.size(), [&](std::uint64_t row) {
          return api::allocation_row(store, record, static_cast<std::size_t>(row));
        });
  });
}

size_t gpumemprof_read_stack(const gpumemprof_recording* recording, uint32_t stack,
                             gpumemprof_frame* rows, size_t count, size_t row_size) {
  if (recording == nullptr) return 0;
  const Store& store = recording->recording->store();
  if (stack >= store.stacks().size()) return 0;
  return api::guarded<std::size_t>(0, nullptr, [&] {
    const std::vector<FrameId> frames = store.stacks().frames_of(StackId(stack));
    api::fill_rows(rows, count, row_size, 0, frames.size(), [&](std::uint64_t row) {
      return api::frame_row(store, frames[static_cast<std::size_t>(row)]);
    });
    return frames.size();
  });
}

int gpumemprof_line_of_stack(const gpumemprof_recording* recording, uint32_t stack,
                             gpumemprof_frame* out, size_t out_size) {
  if (recording == nullptr) return 0;
  const Store& store = recording->recording->store();
  if (stack >= store.stacks().size()) return 0;
  const StackId line = line_part(store, StackId(stack));
  if (line.is_none()) return 0;
  api::fill(out, out_size, api::frame_row(store, store.stacks().frame(line)));
  return 1;
}

const char* gpumemprof_action_name(int32_t action) {
  if (action < 0 || static_cast<std::size_t>(action) >= kActionCount) return "";
  return action_name(static_cast<Action>(action)).data();
}

const char* gpumemprof_source_name(int32_t source) {
  if (source < 0 || static_cast<std::size_t>(source) >= kMemorySourceCount) return "";
  return memory_source_name(static_cast<MemorySource>(source)).data();
}

const char* gpumemprof_phase_name(int32_t phase) {
  if (phase < 0 || static_cast<std::size_t>(phase) >= kPhaseCount) return "";
  return phase_name(static_cast<Phase>(phase)).data();
}
