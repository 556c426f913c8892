#include "ingest/small_snapshot.h"

#include <fmt/core.h>

#include <stdexcept>

#include "ingest/torch_snapshot.h"

namespace gpumemprof::test {

PyRef py_frame(std::string_view name, std::string_view file, std::int64_t line) {
  return py_dict({{"name", py_text(name)}, {"filename", py_text(file)}, {"line", py_int(line)}});
}

PyRef py_event(std::string_view action, std::int64_t address, std::int64_t size, PyRef frames) {
  PyRef event = py_dict({{"action", py_text(action)},
                         {"addr", py_int(address)},
                         {"size", py_int(size)},
                         {"stream", py_int(0)},
                         {"time_us", py_int(kTime)},
                         {"compile_context", py_text("N/A")},
                         {"user_metadata", py_text("")},
                         {"pool_id", py_tuple({py_int(0), py_int(0)})}});
  if (frames) set(event, "frames", std::move(frames));
  return event;
}

PyRef py_block(std::int64_t address, std::int64_t size, std::int64_t requested,
               std::string_view state, PyRef frames) {
  return py_dict({{"address", py_int(address)},
                  {"size", py_int(size)},
                  {"requested_size", py_int(requested)},
                  {"state", py_text(state)},
                  {"frames", frames ? std::move(frames) : py_list()}});
}

PyRef py_segment(std::int64_t device, std::int64_t address, std::int64_t size,
                 std::vector<PyRef> blocks) {
  return py_dict({{"device", py_int(device)},
                  {"address", py_int(address)},
                  {"total_size", py_int(size)},
                  {"allocated_size", py_int(0)},
                  {"active_size", py_int(0)},
                  {"requested_size", py_int(0)},
                  {"stream", py_int(0)},
                  {"segment_type", py_text("small")},
                  {"segment_pool_id", py_tuple({py_int(0), py_int(0)})},
                  {"is_expandable", py_bool(false)},
                  {"frames", py_list()},
                  {"blocks", py_list(std::move(blocks))}});
}

PyRef py_snapshot(std::vector<PyRef> segments, std::vector<PyRef> device_traces) {
  return py_dict({{"segments", py_list(std::move(segments))},
                  {"device_traces", py_list(std::move(device_traces))},
                  {"allocator_settings", py_dict({{"PYTORCH_CUDA_ALLOC_CONF", py_text("")},
                                                  {"max_split_size", py_int(-1)},
                                                  {"garbage_collection_threshold", py_float(0.5)},
                                                  {"expandable_segments", py_bool(false)}})},
                  {"external_annotations", py_list()}});
}

PyRef small_snapshot() {
  const PyRef main = py_frame("main", "/train/main.py", 7);
  const PyRef outer = py_list({main});
  const PyRef inner = py_list({py_frame("forward", "/train/model.py", 41), main});
  constexpr std::int64_t kSize = 2 << 20;
  const PyRef trace = py_list(
      {py_event("segment_alloc", kBase, kSize, inner), py_event("alloc", kBase, 1000, inner),
       py_event("alloc", kBase + 1024, 512, outer), py_event("free_requested", kBase, 1000, outer),
       py_event("free_completed", kBase, 1000, outer), py_event("alloc", kBase, 600, inner)});
  const PyRef segment = py_segment(0, kBase, kSize,
                                   {py_block(kBase, 1024, 600, "active_allocated", inner),
                                    py_block(kBase + 1024, 512, 512, "active_allocated", outer),
                                    py_block(kBase + 1536, kSize - 1536, 0, "inactive")});
  return py_snapshot({segment}, {trace});
}

Read read_bytes(std::string_view bytes) {
  auto store = std::make_unique<Store>();
  const Status delivered =
      TorchSnapshot::from_bytes(std::as_bytes(std::span(bytes.data(), bytes.size())), "test.pickle")
          ->deliver(*store);
  if (!delivered) return delivered.error();
  return store;
}

std::unique_ptr<Store> read_object(const PyRef& object, int protocol, PickleStyle style) {
  const std::string bytes = pickled(object, protocol, style);
  Read read = read_bytes(bytes);
  if (!read) throw std::runtime_error(read.error().sentence());
  return std::move(read).value();
}

std::string described_stack(const Store& store, StackId stack) {
  std::string text;
  for (const FrameId frame : store.stacks().frames_of(stack)) {
    const Frame& known = store.frame(frame);
    text += fmt::format(" {}@{}:{}", store.text(known.name), store.text(known.file), known.line);
  }
  return text;
}

std::string described(const Store& store) {
  std::string text;
  const auto pool = [&](std::uint32_t row) {
    return row == kNoPool ? std::string("-")
                          : fmt::format("({},{})", store.pool(row).graph, store.pool(row).user);
  };
  for (const auto& device : store.devices()) {
    text += fmt::format("{}\n", store.device_name(device->device));
    for (std::size_t row = 0; row < device->events.size(); ++row) {
      const Event event = device->events.row(row);
      text += fmt::format(
          "  {} {:#x} {} stream {} time {} pool {} context '{}' metadata '{}'{}{}\n",
          action_name(event.action), event.address, event.size_bytes,
          store.stream_handle(event.stream), event.time_ns, pool(event.pool),
          store.text(event.compile_context), store.text(event.user_metadata),
          described_stack(store, event.stack),
          event.forward_stack.is_none() ? ""
                                        : " forward" + described_stack(store, event.forward_stack));
    }
    for (std::size_t index = 0; index < device->final_state.segments.size(); ++index) {
      const SegmentState& segment = device->final_state.segments[index];
      text += fmt::format("  segment {:#x} {} stream {} pool {} small {} expandable {}{}\n",
                          segment.address, segment.size_bytes, store.stream_handle(segment.stream),
                          pool(segment.pool), segment.is_small, segment.is_expandable,
                          described_stack(store, segment.stack));
      for (const BlockState& block : device->final_state.blocks_of(index)) {
        text += fmt::format("    block {:#x} {} {} state {}{}\n", block.address, block.size_bytes,
                            block.requested_bytes, static_cast<int>(block.state),
                            described_stack(store, block.stack));
      }
    }
  }
  for (const Annotation& note : store.annotations()) {
    text += fmt::format("annotation {} {} {} {}\n", store.text(note.name),
                        static_cast<int>(note.stage), note.device, note.time_ns);
  }
  for (const auto& [key, value] : store.origin().settings)
    text += fmt::format("setting {}={}\n", key, value);
  text +=
      fmt::format("gc {} split {} expandable {}\n", store.settings().garbage_collection_threshold,
                  store.settings().max_split_bytes, store.settings().expandable_segments);
  return text;
}

}  // namespace gpumemprof::test
