#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include "bindings.h"
#include "report/json/whatif_json.h"

namespace gpumemprof::bindings {
namespace {

WhatIfOptions options_from(const std::vector<std::string>& alloc_confs,
                           const std::vector<std::uint64_t>& memory_limits,
                           const std::optional<std::string>& torch_version,
                           std::optional<std::uint64_t> recorded_limit,
                           std::optional<DeviceIndex> device) {
  WhatIfOptions options;
  options.alloc_confs = alloc_confs;
  options.memory_limits = memory_limits;
  options.recorded_limit_bytes = recorded_limit;
  options.device = device;
  options.finds_min_memory = true;
  if (torch_version) options.version = value_or_raise(parse_torch_version(*torch_version));
  return options;
}

nb::str replay_json(const RecordingHandle& handle, const std::vector<std::string>& alloc_confs,
                    const std::vector<std::uint64_t>& memory_limits,
                    const std::optional<std::string>& torch_version,
                    std::optional<std::uint64_t> recorded_limit, std::optional<DeviceIndex> device,
                    bool search) {
  WhatIfOptions options =
      options_from(alloc_confs, memory_limits, torch_version, recorded_limit, device);
  options.searches = search;
  Result<WhatIf> whatif = [&] {
    const nb::gil_scoped_release no_gil;
    return handle.recording->whatif(options);
  }();
  return to_str(whatif_json(value_or_raise(std::move(whatif))));
}

void write_simulated(const RecordingHandle& handle, const std::vector<std::string>& alloc_confs,
                     const std::vector<std::uint64_t>& memory_limits,
                     const std::optional<std::string>& torch_version,
                     std::optional<std::uint64_t> recorded_limit, std::optional<DeviceIndex> device,
                     const nb::bytes& path, bool overwrite) {
  const WhatIfOptions options =
      options_from(alloc_confs, memory_limits, torch_version, recorded_limit, device);
  const std::string native_path(path.c_str(), path.size());
  Status written = [&] {
    const nb::gil_scoped_release no_gil;
    return handle.recording->write_simulated(options, native_path, overwrite);
  }();
  value_or_raise(std::move(written));
}

}  // namespace

void bind_whatif(nb::module_& module) {
  module.def("replay_json", replay_json, nb::arg("recording"), nb::arg("alloc_confs"),
             nb::arg("memory_limits"), nb::arg("torch_version").none(),
             nb::arg("recorded_limit").none(), nb::arg("device").none(), nb::arg("search"));
  module.def("write_simulated", write_simulated, nb::arg("recording"), nb::arg("alloc_confs"),
             nb::arg("memory_limits"), nb::arg("torch_version").none(),
             nb::arg("recorded_limit").none(), nb::arg("device").none(), nb::arg("path"),
             nb::arg("overwrite"));
}

}  // namespace gpumemprof::bindings
