#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/string_view.h>

#include "base/bytes.h"
#include "bindings.h"
#include "report/json/overview_json.h"
#include "report/text/overview/overview_text.h"
#include "session/ranks/rank_summary.h"
#include "session/ranks/summary_file.h"

namespace gpumemprof::bindings {
namespace {

OverviewOptions options_from(const std::string& moment, std::uint32_t event,
                             std::optional<DeviceIndex> device) {
  OverviewOptions options;
  options.device = device;
  if (moment == "end") {
    options.at.kind = AskedMoment::Kind::end;
  } else if (moment == "event") {
    options.at = {AskedMoment::Kind::event, event};
  } else if (moment == "step") {
    options.at = {AskedMoment::Kind::step, 0, event};
  }
  return options;
}

template <typename Handle, typename Print>
nb::str report(const Handle& handle, const OverviewOptions& options, Print print) {
  Result<std::string> text = [&]() -> Result<std::string> {
    const nb::gil_scoped_release no_gil;
    Result<Overview> overview = handle.recording->overview(options);
    if (!overview) return overview.error();
    return print(overview.value(), handle.recording->store());
  }();
  return to_str(value_or_raise(std::move(text)));
}

template <typename Handle>
nb::str report_json(const Handle& handle, const std::string& moment, std::uint32_t event,
                    std::optional<DeviceIndex> device, std::optional<std::size_t> top) {
  return report(handle, options_from(moment, event, device),
                [&](const Overview& overview, const Store& store) {
                  return overview_json(overview, store, top.value_or(kAllGroups));
                });
}

template <typename Handle>
nb::str report_text(const Handle& handle, const std::string& moment, std::uint32_t event,
                    std::optional<DeviceIndex> device, std::optional<std::size_t> top,
                    std::size_t width, bool shows_modules, bool shows_steps) {
  return report(handle, options_from(moment, event, device),
                [&](const Overview& overview, const Store& store) {
                  TextStyle style;
                  style.width = width;
                  style.top = top.value_or(style.top);
                  style.shows_modules = shows_modules;
                  style.shows_steps = shows_steps;
                  return overview_text(overview, store, style);
                });
}

nb::bytes rank_summary_of(const nb::bytes& path, bool is_running) {
  const std::string native_path(path.c_str(), path.size());
  Result<std::string> made = [&] {
    const nb::gil_scoped_release no_gil;
    return rank_summary(native_path, is_running);
  }();
  const std::string text = value_or_raise(std::move(made));
  return nb::bytes(text.data(), text.size());
}

nb::bytes numbers_of(const std::vector<std::int64_t>& values) {
  return nb::bytes(reinterpret_cast<const char*>(values.data()),
                   values.size() * sizeof(std::int64_t));
}

// The head, and for each device the line of what it holds, its steps and their peaks, as bytes of
// 64-bit numbers; None if the file is not in the usual form.
nb::object summary_file_of(const nb::bytes& path) {
  const std::string native_path(path.c_str(), path.size());
  const std::optional<SummaryFile> file = [&] {
    const nb::gil_scoped_release no_gil;
    return read_summary_file(native_path);
  }();
  if (!file) return nb::none();
  nb::list devices;
  for (const SummaryOfDevice& device : file->devices) {
    devices.append(nb::make_tuple(nb::bytes(device.held.data(), device.held.size()),
                                  numbers_of(device.steps), numbers_of(device.peaks)));
  }
  return nb::make_tuple(nb::bytes(file->head.data(), file->head.size()), devices);
}

// Both kinds of recordings.
template <typename Handle>
void bind_reports_of(nb::module_& module) {
  module.def("report_json", report_json<Handle>, nb::arg("recording"), nb::arg("moment"),
             nb::arg("event"), nb::arg("device").none(), nb::arg("top").none());
  module.def("report_text", report_text<Handle>, nb::arg("recording"), nb::arg("moment"),
             nb::arg("event"), nb::arg("device").none(), nb::arg("top").none(), nb::arg("width"),
             nb::arg("shows_modules"), nb::arg("shows_steps"));
}

}  // namespace

void bind_report(nb::module_& module) {
  module.def("format_bytes", format_bytes, nb::arg("size_bytes"));
  module.def("parse_bytes", parse_bytes, nb::arg("text"));
  module.def("rank_summary", rank_summary_of, nb::arg("path"), nb::arg("is_running") = false);
  module.def("read_summary_file", summary_file_of, nb::arg("path"));
  bind_reports_of<RecordingHandle>(module);
  bind_reports_of<LongHandle>(module);
}

}  // namespace gpumemprof::bindings
