#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/vector.h>

#include <optional>
#include <utility>
#include <vector>

#include "bindings.h"
#include "report/json/completeness_json.h"
#include "report/text/overview/completeness_text.h"
#include "session/excerpt/excerpt.h"

namespace gpumemprof::bindings {
namespace {

// Lets Ctrl-C end a long read: Python only notes the signal, and acts on it when polled.
void stop_if_interrupted() {
  const nb::gil_scoped_acquire gil;
  if (PyErr_CheckSignals() != 0) throw nb::python_error();
}

using Range = std::optional<std::pair<std::uint32_t, std::uint32_t>>;

Result<std::shared_ptr<const Recording>> open_range(const std::string& path,
                                                    const OpenOptions& options, const Range& events,
                                                    const Range& steps) {
  const bool is_steps = steps.has_value();
  const auto [first, last] = steps.value_or(events.value_or(Range::value_type()));
  const AskedPart asked{
      is_steps ? AskedPart::Kind::steps : AskedPart::Kind::events, first, last, {}};
  Result<std::shared_ptr<const Recording>> part = open_excerpt(path, asked, options);
  if (part && part.value() == nullptr)
    return Error{ErrorCode::usage, "no part of it can be opened: its start is not known", path,
                 "load it without events and steps"};
  return part;
}

RecordingHandle open(const nb::bytes& path, const Range& events, const Range& steps) {
  const std::string native_path(path.c_str(), path.size());
  OpenOptions options;
  options.progress = [](std::uint64_t /*done*/, std::uint64_t /*total*/) { stop_if_interrupted(); };
  Result<std::shared_ptr<const Recording>> recording = [&] {
    const nb::gil_scoped_release no_gil;
    if (events || steps) return open_range(native_path, options, events, steps);
    return Recording::open(native_path, options);
  }();
  return {value_or_raise(std::move(recording))};
}

// None: it is short, or must be read whole.
std::optional<LongHandle> open_long(const nb::bytes& path) {
  const std::string native_path(path.c_str(), path.size());
  OpenOptions options;
  options.progress = [](std::uint64_t /*done*/, std::uint64_t /*total*/) { stop_if_interrupted(); };
  Result<std::shared_ptr<LongRecording>> recording = [&] {
    const nb::gil_scoped_release no_gil;
    return LongRecording::open(native_path, options);
  }();
  const std::shared_ptr<LongRecording> opened = value_or_raise(std::move(recording));
  return opened == nullptr ? std::nullopt : std::optional(LongHandle{opened});
}

RecordingHandle around_peak(const LongHandle& handle) {
  Result<std::shared_ptr<const Recording>> part = [&] {
    const nb::gil_scoped_release no_gil;
    return handle.recording->around_peak();
  }();
  return {value_or_raise(std::move(part))};
}

template <typename Handle>
nb::object cut(const Handle& handle) {
  const std::optional<Error> cut = handle.recording->cut();
  return cut ? nb::object(to_str(cut->sentence())) : nb::none();
}

Completeness completeness_of(const RecordingHandle& handle) {
  return find_completeness(handle.recording->store());
}
Completeness completeness_of(const LongHandle& handle) { return handle.recording->completeness(); }

// A sentence for each thing known to be missing.
template <typename Handle>
nb::list missing(const Handle& handle) {
  nb::list sentences;
  Completeness found = completeness_of(handle);
  found.excerpts.clear();  // what was not asked for is not missing
  for (const std::string& sentence : text::missing_sentences(found))
    sentences.append(to_str(sentence));
  return sentences;
}

template <typename Handle>
nb::object completeness(const Handle& handle) {
  return to_str(completeness_document(completeness_of(handle)));
}

// Innermost first, as (name, file, line).
template <typename Handle>
nb::list stack(const Handle& handle, std::uint32_t id) {
  const Store& store = handle.recording->store();
  if (id >= store.stacks().size()) throw nb::index_error("there is no stack with this number");
  nb::list frames;
  for (const FrameId frame_id : store.stacks().frames_of(StackId(id))) {
    const Frame& frame = store.frame(frame_id);
    frames.append(
        nb::make_tuple(to_str(store.text(frame.name)), to_str(store.text(frame.file)), frame.line));
  }
  return frames;
}

const DeviceRecord& device_at(const RecordingHandle& handle, std::size_t row) {
  const auto& devices = handle.recording->store().devices();
  if (row >= devices.size()) throw nb::index_error("there is no device with this number");
  return *devices[row];
}

using Time = std::optional<std::int64_t>;  // Unix ns

Time time_of(const DeviceRecord& device, std::uint32_t event) {
  if (event == kNoEvent || device.events.time_ns[event] == kUnknownTime) return std::nullopt;
  return device.events.time_ns[event];
}

std::optional<std::uint32_t> stack_of(StackId id) {
  return id.is_none() ? std::nullopt : std::optional(id.index);
}

// One allocation whose creation was recorded.
struct AllocationRow {
  std::uint64_t address = 0;
  std::uint64_t size_bytes = 0;
  std::uint64_t requested_bytes = 0;
  Time allocated_ns;
  Time freed_ns;
  std::optional<std::uint32_t> stack;
};

// The newest `most` of them, oldest first.
std::vector<AllocationRow> allocation_rows(const RecordingHandle& handle, std::size_t device_row,
                                           std::size_t most) {
  const DeviceRecord& device = device_at(handle, device_row);
  const AllocationColumns& all = device.allocations;
  std::vector<AllocationRow> rows;
  for (std::size_t row = all.size() > most ? all.size() - most : 0; row < all.size(); ++row) {
    if (all.alloc_event[row] == kNoEvent) continue;
    rows.push_back({all.address[row], all.size_bytes[row], all.requested_bytes[row],
                    time_of(device, all.alloc_event[row]),
                    time_of(device, all.free_requested_event[row]), stack_of(all.stack[row])});
  }
  return rows;
}

std::optional<std::uint32_t> event_stack(const RecordingHandle& handle, std::size_t device_row,
                                         std::size_t event) {
  const DeviceRecord& device = device_at(handle, device_row);
  if (event >= device.events.size()) throw nb::index_error("there is no event with this number");
  return stack_of(device.events.stack[event]);
}

template <typename Handle>
nb::list streams(const Handle& handle) {
  const Store& store = handle.recording->store();
  nb::list handles;
  for (std::uint32_t row = 0; row < store.stream_count(); ++row)
    handles.append(store.stream_handle(row));
  return handles;
}

template <typename Handle>
nb::list pools(const Handle& handle) {
  const Store& store = handle.recording->store();
  nb::list ids;
  for (std::uint32_t row = 0; row < store.pool_count(); ++row) {
    const PoolId pool = store.pool(row);
    ids.append(nb::make_tuple(pool.graph, pool.user));
  }
  return ids;
}

nb::list device_names(const RecordingHandle& handle) {
  const Store& store = handle.recording->store();
  nb::list names;
  for (const auto& record : store.devices())
    names.append(to_str(store.device_name(record->device)));
  return names;
}

}  // namespace

void bind_recording(nb::module_& module) {
  nb::class_<AllocationRow>(module, "AllocationRow")
      .def_ro("address", &AllocationRow::address)
      .def_ro("size_bytes", &AllocationRow::size_bytes)
      .def_ro("requested_bytes", &AllocationRow::requested_bytes)
      .def_ro("allocated_ns", &AllocationRow::allocated_ns)
      .def_ro("freed_ns", &AllocationRow::freed_ns)
      .def_ro("stack", &AllocationRow::stack);
  nb::class_<RecordingHandle>(module, "RecordingHandle")
      .def_prop_ro("cut", cut<RecordingHandle>)
      .def_prop_ro("missing", missing<RecordingHandle>)
      .def_prop_ro("completeness_json", completeness<RecordingHandle>)
      .def_prop_ro("device_names", device_names)
      .def_prop_ro(
          "event_count",
          [](const RecordingHandle& handle) { return handle.recording->store().event_count(); })
      .def_prop_ro("streams", streams<RecordingHandle>)
      .def_prop_ro("pools", pools<RecordingHandle>)
      .def("allocation_rows", allocation_rows, nb::arg("device_row"), nb::arg("most"))
      .def("event_stack", event_stack, nb::arg("device_row"), nb::arg("event"))
      .def("stack", stack<RecordingHandle>, nb::arg("id"));
  nb::class_<LongHandle>(module, "LongHandle")
      .def_prop_ro("cut", cut<LongHandle>)
      .def_prop_ro("missing", missing<LongHandle>)
      .def_prop_ro("completeness_json", completeness<LongHandle>)
      .def_prop_ro("device_names",
                   [](const LongHandle& handle) {
                     nb::list names;
                     for (const std::string& name : handle.recording->device_names())
                       names.append(to_str(name));
                     return names;
                   })
      .def_prop_ro("event_count",
                   [](const LongHandle& handle) { return handle.recording->events(); })
      .def_prop_ro("note",
                   [](const LongHandle& handle) { return to_str(handle.recording->note()); })
      .def_prop_ro("streams", streams<LongHandle>)
      .def_prop_ro("pools", pools<LongHandle>)
      .def("around_peak", around_peak)
      .def("stack", stack<LongHandle>, nb::arg("id"));
  module.def("open_long", open_long, nb::arg("path"));
  module.def("open", open, nb::arg("path"), nb::arg("events").none() = nb::none(),
             nb::arg("steps").none() = nb::none());
}

}  // namespace gpumemprof::bindings
