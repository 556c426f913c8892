#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <utility>
#include <vector>

#include "bindings.h"
#include "capture/capture.h"
#include "event/alloc_conf.h"
#include "session/gmp_file.h"
#include "session/recording.h"

namespace gpumemprof::bindings {
namespace {

std::string to_text(const nb::bytes& bytes) { return {bytes.c_str(), bytes.size()}; }

// Text from Python that need not be valid UTF-8 (a path, an argument, whatever a program calls its
// own): nothing here raises an error in the program.
std::string to_text(const nb::handle& text) {
  PyObject* encoded = PyUnicode_AsEncodedString(text.ptr(), "utf-8", "surrogateescape");
  if (encoded == nullptr && PyErr_ExceptionMatches(PyExc_UnicodeError) != 0) {
    PyErr_Clear();
    encoded = PyUnicode_AsEncodedString(text.ptr(), "utf-8", "backslashreplace");
  }
  if (encoded == nullptr) nb::raise_python_error();
  return to_text(nb::steal<nb::bytes>(encoded));
}

capture::Facts to_facts(const nb::dict& facts) {
  capture::Facts texts;
  for (const auto& [key, value] : facts) texts.emplace_back(to_text(key), to_text(value));
  return texts;
}

void check(const Status& status) {
  if (!status) raise(status.error());
}

int start(const nb::bytes& path, bool is_cpu, bool overwrites, bool with_stacks,
          bool waits_for_events, const nb::dict& facts, bool is_predicted, std::uint64_t keep_bytes,
          std::uint64_t chapter_events, bool native_stacks, const nb::bytes& second_name) {
  capture::StartOptions options;
  options.path = to_text(path);
  options.second_name = to_text(second_name);
  options.memory = is_cpu ? capture::MemoryKind::cpu : capture::MemoryKind::cuda;
  options.overwrites = overwrites;
  options.with_stacks = with_stacks;
  options.waits_for_events = waits_for_events;
  options.facts = to_facts(facts);
  options.is_predicted = is_predicted;
  options.keep_bytes = keep_bytes;
  options.chapter_events = chapter_events;
  options.native_stacks = native_stacks;
  Result<capture::RecordingNumber> number = [&] {
    const nb::gil_scoped_release no_gil;
    return capture::start(options);
  }();
  return value_or_raise(std::move(number));
}

// What is called in the main thread, between two of its instructions, as handlers of signals are.
// Never freed: the interpreter may be gone before.
nb::object& asked_call() {
  static auto* const kCall = new nb::object();  // NOLINT(cppcoreguidelines-owning-memory)
  return *kCall;
}

int run_asked_call(void* /*nothing*/) {
  const nb::object call = std::exchange(asked_call(), nb::object());
  if (!call.is_valid()) return 0;
  PyObject* result = PyObject_CallNoArgs(call.ptr());
  Py_XDECREF(result);
  return result == nullptr ? -1 : 0;  // -1: what it raised is raised in the program
}

void call_after_events(std::uint64_t events, nb::object call) {
  const bool is_over = call.is_none();
  asked_call() = is_over ? nb::object() : std::move(call);
  capture::call_after_events(
      events, is_over ? nullptr : +[] {
        if (Py_IsInitialized() != 0) Py_AddPendingCall(run_asked_call, nullptr);
      });
}

nb::bytes path_of(int recording) {
  const std::string path = [&] {
    const nb::gil_scoped_release no_gil;
    return capture::path_of(recording);
  }();
  return nb::bytes(path.data(), path.size());
}

// None where they are not known.
nb::object to_counts(const EventCounts& counts, bool is_known) {
  if (!is_known) return nb::none();
  nb::dict row;
  row["allocations"] = counts.allocations;
  row["frees"] = counts.frees;
  row["others"] = counts.others;
  return row;
}

nb::dict stop(int recording, const nb::str& reason) {
  const capture::Summary summary = [&, text = to_text(nb::handle(reason))] {
    const nb::gil_scoped_release no_gil;
    return capture::stop(recording, text);
  }();
  nb::dict result;
  result["path"] = to_str(summary.path);
  result["events"] = summary.events;
  result["lost_events"] = summary.lost_events;
  result["made"] = to_counts(summary.made, summary.has_counts);
  result["lost"] = to_counts(summary.lost, summary.has_counts);
  result["size_bytes"] = summary.size_bytes;
  result["problem"] = to_str(summary.problem);
  nb::list devices;
  for (const capture::DeviceSummary& device : summary.devices) {
    nb::dict row;
    row["device"] = device.device;
    row["events"] = device.events;
    row["requested_bytes"] = device.requested_bytes;
    row["peak_requested_bytes"] = device.peak_requested_bytes;
    devices.append(row);
  }
  result["devices"] = devices;
  return result;
}

BlockStateKind block_state(const std::string& name) {
  if (name == "active_allocated") return BlockStateKind::active_allocated;
  if (name == "inactive") return BlockStateKind::inactive;
  return BlockStateKind::active_pending_free;
}

std::uint64_t number(const nb::handle& row, const char* key) {
  return nb::cast<std::uint64_t>(row[key]);
}

capture::ListedBlock to_block(const nb::handle& row) {
  capture::ListedBlock block;
  block.address = number(row, "address");
  block.size_bytes = number(row, "size");
  block.requested_bytes = number(row, "requested_size");
  block.state = block_state(to_text(nb::handle(nb::object(row["state"]))));
  return block;
}

// A segment as torch's snapshot lists it.
capture::ListedSegment to_segment(const nb::handle& row) {
  capture::ListedSegment segment;
  segment.device = nb::cast<DeviceIndex>(row["device"]);
  segment.address = number(row, "address");
  segment.size_bytes = number(row, "total_size");
  segment.stream = number(row, "stream");
  segment.is_small = to_text(nb::handle(nb::object(row["segment_type"]))) == "small";
  segment.is_expandable = nb::cast<bool>(row["is_expandable"]);
  const nb::object pool = row["segment_pool_id"];
  segment.pool = {nb::cast<std::uint64_t>(pool[0]), nb::cast<std::uint64_t>(pool[1])};
  for (const nb::handle block : nb::object(row["blocks"]))
    segment.blocks.push_back(to_block(block));
  return segment;
}

std::vector<capture::ListedSegment> to_segments(const nb::list& rows) {
  std::vector<capture::ListedSegment> segments;
  for (const nb::handle row : rows) segments.push_back(to_segment(row));
  return segments;
}

void finish_join(int recording, int devices, const nb::list& rows) {
  check(capture::finish_join(recording, devices, to_segments(rows)));
}

bool wait_for_allocation(int recording, double seconds) {
  const nb::gil_scoped_release no_gil;
  return capture::wait_for_allocation(
      recording, std::chrono::milliseconds(static_cast<std::int64_t>(seconds * 1000)));
}

// None: it could not be done. Otherwise why it failed, empty where it passed.
nb::object finish_self_test(int recording, int devices, const nb::list& rows) {
  const std::vector<capture::ListedSegment> segments = to_segments(rows);
  const Result<capture::SelfTestResult> result = [&] {
    const nb::gil_scoped_release no_gil;
    return capture::finish_self_test(recording, devices, segments);
  }();
  if (!result) raise(result.error());
  if (!result.value().is_done) return nb::none();
  return to_str(result.value().contradiction.value_or(""));
}

void attach_cuda(int major, int minor) {
  const Status attached = [&] {
    const nb::gil_scoped_release no_gil;
    return capture::attach_cuda({major, minor});
  }();
  check(attached);
}

// False: the settings are not understood, and the defaults stay in effect.
bool set_settings(int recording, const nb::str& text, int major, int minor) {
  const Result<AllocConf> conf = parse_alloc_conf(to_text(nb::handle(text)), {major, minor});
  if (conf) capture::set_settings(recording, conf.value().settings);
  return conf.ok();
}

// Two nodes of torch's graph, created one after the other, and their numbers as torch reports them.
void validate_autograd(const nb::object& first, std::uint64_t first_sequence,
                       const nb::object& second, std::uint64_t second_sequence) {
  const auto address = [](const nb::object& node) {
    return reinterpret_cast<std::uintptr_t>(node.ptr());
  };
  check(
      capture::validate_autograd(address(first), first_sequence, address(second), second_sequence));
}

// Innermost first, as (name, file, line).
nb::list own_stack() {
  nb::list frames;
  for (const capture::StackFrame& frame : capture::own_stack()) {
    frames.append(nb::make_tuple(to_str(frame.name), to_str(frame.file), frame.line));
  }
  return frames;
}

// Replaces what we could not record with what torch's own recorder saw.
void replace_with_snapshot(const nb::bytes& snapshot, const nb::bytes& path,
                           const nb::dict& more_facts) {
  const capture::Facts facts = to_facts(more_facts);
  const std::string from = to_text(snapshot);
  const std::string to = to_text(path);
  const Status written = [&]() -> Status {
    const nb::gil_scoped_release no_gil;
    const Result<std::shared_ptr<const Recording>> recording = Recording::open(from);
    if (!recording) return recording.error();
    return write_gmp_file(recording.value()->store(), to, FileSink::Existing::replace, facts);
  }();
  check(written);
}

void mark(const nb::str& name, bool is_start) {
  capture::mark(to_text(nb::handle(name)),
                is_start ? Annotation::Stage::start : Annotation::Stage::end);
}

// Rows of (kind, device, address, name).
std::uint32_t define_labels(const nb::list& rows) {
  std::vector<capture::StorageLabel> labels;
  labels.reserve(rows.size());
  for (const nb::handle row : rows) {
    labels.push_back({nb::cast<LabelKind>(row[0]), nb::cast<DeviceIndex>(row[1]),
                      nb::cast<std::uint64_t>(row[2]), to_text(nb::handle(nb::object(row[3])))});
  }
  return capture::define_labels(std::move(labels));
}

// Rows of (path, class, file, first line, last line, address, whether it is a root).
void describe_modules(const nb::list& rows) {
  std::vector<capture::ModuleDescription> modules;
  modules.reserve(rows.size());
  for (const nb::handle row : rows) {
    modules.push_back(
        {to_text(nb::handle(nb::object(row[0]))), to_text(nb::handle(nb::object(row[1]))),
         to_text(nb::handle(nb::object(row[2]))), nb::cast<std::uint32_t>(row[3]),
         nb::cast<std::uint32_t>(row[4]), nb::cast<std::uint64_t>(row[5]), nb::cast<bool>(row[6])});
  }
  capture::describe_modules(std::move(modules));
}

// Ids, as Python's id() gives them, innermost first.
nb::list own_modules(const nb::object& call_code) {
  nb::list ids;
  for (const std::uintptr_t module : capture::own_modules(address_of(call_code)))
    ids.append(module);
  return ids;
}

void follow_modules(const nb::object& call_code) {
  call_code.inc_ref();  // and never released: callbacks compare with its address
  capture::follow_modules(address_of(call_code));
}

// The modules that the calling thread is in, innermost first. Their frames keep them alive.
nb::list called_modules(const nb::object& call_code) {
  nb::list modules;
  for (const std::uintptr_t module : capture::own_modules(address_of(call_code)))
    modules.append(nb::borrow(reinterpret_cast<PyObject*>(module)));  // NOLINT: its id
  return modules;
}

// The callable that describes modules; called in Python's main thread.
PyObject* g_describer = nullptr;

int call_describer(void* /*nothing*/) {
  capture::names_answered();
  if (g_describer == nullptr) return 0;
  PyObject* error_type = nullptr;
  PyObject* error = nullptr;
  PyObject* traceback = nullptr;
  PyErr_Fetch(&error_type, &error, &traceback);
  PyObject* result = PyObject_CallNoArgs(g_describer);
  if (result == nullptr) PyErr_Clear();
  Py_XDECREF(result);
  PyErr_Restore(error_type, error, traceback);
  return 0;
}

void ask_describer() {
  // Python's queue is short; where it is full, the next unknown module asks again.
  if (Py_AddPendingCall(call_describer, nullptr) != 0) capture::names_answered();
}

// None: no modules are described.
void describe_with(const nb::object& describer) {
  capture::ask_for_names(nullptr);
  PyObject* before = g_describer;
  g_describer = describer.is_none() ? nullptr : describer.inc_ref().ptr();
  Py_XDECREF(before);
  if (g_describer != nullptr) capture::ask_for_names(ask_describer);
}

// How a process may end without notice.
void bind_ends(nb::module_& module) {
  module.def("capture_watch_exit", &capture::watch_exit);
  module.def("capture_watch_signals",
             [](const nb::bytes& farewell) { capture::watch_signals(to_text(farewell)); });
  module.def("capture_stop_all", &capture::stop_all, nb::arg("reason"),
             nb::call_guard<nb::gil_scoped_release>());
}

}  // namespace

void bind_capture(nb::module_& module) {
  module.def("capture_start", start, nb::arg("path"), nb::arg("is_cpu"), nb::arg("overwrites"),
             nb::arg("with_stacks"), nb::arg("waits_for_events"), nb::arg("facts"),
             nb::arg("is_predicted") = false, nb::arg("keep_bytes") = 0,
             nb::arg("chapter_events") = 0, nb::arg("native_stacks") = false,
             nb::arg("second_name") = nb::bytes("", 0));
  module.def("capture_path", path_of, nb::arg("recording"));
  module.def("capture_show_file_as", &capture::show_file_as, nb::arg("file"), nb::arg("name"));
  bind_ends(module);
  module.def("capture_stop", stop, nb::arg("recording"), nb::arg("reason"));
  module.def("capture_flush_recording", &capture::flush_recording, nb::arg("recording"),
             nb::call_guard<nb::gil_scoped_release>());
  module.def("capture_call_after_events", call_after_events, nb::arg("events"),
             nb::arg("call").none());
  module.def("capture_is_recording", capture::is_recording);
  module.def(
      "capture_add_facts",
      [](int recording, const nb::dict& facts) { capture::add_facts(recording, to_facts(facts)); },
      nb::arg("recording"), nb::arg("facts"));
  module.def("capture_set_settings", set_settings, nb::arg("recording"), nb::arg("text"),
             nb::arg("major"), nb::arg("minor"));
  module.def("capture_hold", capture::hold, nb::arg("is_held"), nb::arg("is_without_stacks"));
  module.def("capture_attach_cpu", [] { check(capture::attach_cpu()); });
  module.def("capture_attach_cuda", attach_cuda, nb::arg("major"), nb::arg("minor"));
  module.def("capture_begin_join", capture::begin_join, nb::arg("recording"));
  module.def("capture_finish_join", finish_join, nb::arg("recording"), nb::arg("devices"),
             nb::arg("segments"));
  module.def("capture_wait_for_allocation", wait_for_allocation, nb::arg("recording"),
             nb::arg("seconds"));
  module.def("capture_begin_self_test", capture::begin_self_test, nb::arg("recording"));
  module.def("capture_finish_self_test", finish_self_test, nb::arg("recording"), nb::arg("devices"),
             nb::arg("segments"));
  module.def("capture_end_self_test", capture::end_self_test, nb::arg("recording"),
             nb::arg("has_passed"));
  module.def("capture_watch_card", capture::watch_card, nb::arg("device"), nb::arg("uuid"));
  module.def(
      "capture_start_later",
      [](int recording, const std::vector<nb::bytes>& words, double seconds) {
        std::vector<std::string> texts;
        texts.reserve(words.size());
        for (const nb::bytes& word : words) texts.push_back(to_text(word));
        capture::start_later(recording, texts, seconds);
      },
      nb::arg("recording"), nb::arg("words"), nb::arg("seconds"));
  module.def("capture_prepare_stacks", [] { check(capture::prepare_stacks()); });
  module.def("capture_check_native_stacks", [] { check(capture::check_native_stacks()); });
  module.def("capture_attach_autograd", [] { check(capture::attach_autograd()); });
  module.def("capture_follow_libraries", capture::follow_autograd_of_libraries);
  module.def("capture_validate_autograd", validate_autograd, nb::arg("first"),
             nb::arg("first_sequence"), nb::arg("second"), nb::arg("second_sequence"));
  module.def("capture_own_stack", own_stack);
  module.def("capture_find_thread_key", [] { capture::find_thread_key(); });
  module.def("capture_use_thread_key", capture::use_thread_key);
  module.def("capture_replace_with_snapshot", replace_with_snapshot, nb::arg("snapshot"),
             nb::arg("path"), nb::arg("facts"));
  module.def(
      "capture_flush_all",
      [](int most_ms) { return capture::flush_all(std::chrono::milliseconds(most_ms)); },
      nb::arg("most_ms"), nb::call_guard<nb::gil_scoped_release>());
  module.def("capture_mark", mark, nb::arg("name"), nb::arg("is_start"));
  module.def(
      "capture_enter_tag",
      [](const nb::str& name) { return capture::enter_tag(to_text(nb::handle(name))); },
      nb::arg("name"));
  module.def("capture_define_labels", define_labels, nb::arg("rows"));
  module.def("capture_move_labels", capture::move_labels, nb::arg("number"), nb::arg("addresses"));
  module.def("capture_apply_labels", capture::apply_labels, nb::arg("number"));
  module.def("capture_forget_labels", capture::forget_labels, nb::arg("number"));
  module.def("capture_mark_phase", capture::mark_phase, nb::arg("kind"), nb::arg("number"));
  module.def("capture_describe_modules", describe_modules, nb::arg("rows"));
  module.def("capture_forget_module", capture::forget_module, nb::arg("address"));
  module.def("capture_own_modules", own_modules, nb::arg("call_code"));
  module.def("capture_called_modules", called_modules, nb::arg("call_code"));
  module.def("capture_describe_with", describe_with, nb::arg("describer").none());
  module.def(
      "capture_leave_unnamed",
      [](const nb::object& type) { capture::leave_unnamed(address_of(type)); }, nb::arg("type"));
  module.def("capture_follow_modules", follow_modules, nb::arg("call_code"));
  module.def("capture_leave_tag", capture::leave_tag, nb::arg("previous"));
}

}  // namespace gpumemprof::bindings
