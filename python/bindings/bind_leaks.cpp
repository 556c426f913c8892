#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include "analysis/leaks/leaks.h"
#include "bindings.h"
#include "report/leaks/leaks_json.h"

namespace gpumemprof::bindings {
namespace {

template <typename Handle>
nb::str leaks_as_json(const Handle& handle, std::optional<std::uint64_t> memory_limit,
                      std::vector<std::string> suppressions, std::optional<DeviceIndex> device) {
  LeaksOptions options;
  options.memory_limit_bytes = memory_limit;
  options.suppressions = std::move(suppressions);
  options.device = device;
  Result<std::string> text = [&]() -> Result<std::string> {
    const nb::gil_scoped_release no_gil;
    const Result<LeaksReport> leaks = handle.recording->leaks(options);
    if (!leaks) return leaks.error();
    return leaks_json(leaks.value(), handle.recording->store());
  }();
  return to_str(value_or_raise(std::move(text)));
}

}  // namespace

void bind_leaks(nb::module_& module) {
  module.def("leaks_json", leaks_as_json<RecordingHandle>, nb::arg("recording"),
             nb::arg("memory_limit").none(), nb::arg("suppressions"), nb::arg("device").none());
  module.def("leaks_json", leaks_as_json<LongHandle>, nb::arg("recording"),
             nb::arg("memory_limit").none(), nb::arg("suppressions"), nb::arg("device").none());
}

}  // namespace gpumemprof::bindings
