#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>

#include <chrono>

#include "bindings.h"
#include "report/text/failure/failure_text.h"

namespace gpumemprof::bindings {
namespace {

using std::chrono::steady_clock;

// What is said about a failure, and what its advice has to fit into.
struct ExplainedFailure {
  text::FailureText text;
  std::string device;
  std::string cause;  // empty: PyTorch's allocator did not fail
  bool is_proven = false;
  bool is_simulation_skipped = false;
  DeviceIndex device_index = 0;
  std::optional<std::uint64_t> room_bytes;
};

Result<ExplainedFailure> explain(const Recording& recording, const FailureOptions& options,
                                 const std::string& error, std::size_t width) {
  const Result<Failure> found = recording.explain(options);
  if (!found) return found.error();
  const Failure& failure = found.value();
  ExplainedFailure explained;
  explained.text = text::failure_text(failure, recording.store(), recording.path(), error, width);
  explained.device = failure.device_name;
  explained.device_index = failure.device;
  if (failure.oom) {
    explained.cause = oom_cause_name(failure.oom->cause);
    explained.is_proven = failure.oom->is_proven();
    explained.is_simulation_skipped = failure.oom->is_simulation_skipped;
  }
  explained.room_bytes = room_after(failure);
  return explained;
}

ExplainedFailure explain_failure_of(const RecordingHandle& handle,
                                    std::optional<std::int64_t> until_unix_ns,
                                    std::optional<DeviceIndex> device,
                                    const std::optional<std::string>& error, double seconds,
                                    std::size_t width) {
  FailureOptions options;
  options.until_unix_ns = until_unix_ns;
  options.device = device;
  options.is_outside_allocator = error.has_value();
  options.deadline = steady_clock::now() + std::chrono::duration_cast<steady_clock::duration>(
                                               std::chrono::duration<double>(seconds));
  Result<ExplainedFailure> made = [&] {
    const nb::gil_scoped_release no_gil;
    return explain(*handle.recording, options, error.value_or(""), width);
  }();
  return value_or_raise(std::move(made));
}

// A line, or an empty string.
nb::str cheapest_remedy_of(const RecordingHandle& handle, const ExplainedFailure& failure,
                           std::size_t width) {
  if (!failure.room_bytes) return to_str("");
  const std::string line = [&]() -> std::string {
    const nb::gil_scoped_release no_gil;
    AdviceOptions options;
    options.device = failure.device_index;
    options.fit_bytes = failure.room_bytes;
    const Result<Advice> advice = handle.recording->advise(options);
    return advice ? text::cheapest_remedy(advice.value(), width) : "";
  }();
  return to_str(line);
}

}  // namespace

void bind_failure(nb::module_& module) {
  nb::class_<ExplainedFailure>(module, "ExplainedFailure")
      .def_prop_ro("note",
                   [](const ExplainedFailure& failure) { return to_str(failure.text.note); })
      .def_prop_ro("page",
                   [](const ExplainedFailure& failure) { return to_str(failure.text.page); })
      .def_ro("device", &ExplainedFailure::device)
      .def_ro("cause", &ExplainedFailure::cause)
      .def_ro("is_proven", &ExplainedFailure::is_proven)
      .def_ro("is_simulation_skipped", &ExplainedFailure::is_simulation_skipped)
      .def_ro("room_bytes", &ExplainedFailure::room_bytes);
  module.def("explain_failure", explain_failure_of, nb::arg("recording"),
             nb::arg("until_unix_ns").none(), nb::arg("device").none(), nb::arg("error").none(),
             nb::arg("seconds"), nb::arg("width"));
  module.def("cheapest_remedy", cheapest_remedy_of, nb::arg("recording"), nb::arg("failure"),
             nb::arg("width"));
}

}  // namespace gpumemprof::bindings
