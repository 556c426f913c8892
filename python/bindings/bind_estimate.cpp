#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <utility>
#include <vector>

#include "bindings.h"
#include "capture/capture.h"
#include "estimate/simulated_device.h"

namespace gpumemprof::bindings {
namespace {

using estimate::SimulatedDevice;
using PoolPair = std::pair<std::uint64_t, std::uint64_t>;

PoolId to_pool(const PoolPair& pool) { return {pool.first, pool.second}; }

SimulatedDevice* make_device(DeviceIndex index, std::uint64_t total_bytes, std::uint64_t free_bytes,
                             const std::string& settings, std::pair<int, int> torch_version) {
  estimate::SimulatedDeviceOptions options;
  options.device = index;
  options.total_bytes = total_bytes;
  options.free_bytes = free_bytes;
  options.settings = settings;
  options.version = {torch_version.first, torch_version.second};
  return value_or_raise(SimulatedDevice::create(options)).release();
}

nb::dict statistics(const SimulatedDevice& device) {
  const sim::Counters counters = device.counters();
  nb::dict figures;
  for (const std::string& name : sim::counter_names())
    figures[to_str(name)] = counters.value(name).value_or(0);
  return figures;
}

}  // namespace

void bind_estimate(nb::module_& module) {
  nb::class_<SimulatedDevice>(module, "SimulatedDevice")
      .def(nb::new_(&make_device), nb::arg("index"), nb::arg("total_bytes"), nb::arg("free_bytes"),
           nb::arg("settings"), nb::arg("torch_version"))
      .def(
          "allocate",
          [](SimulatedDevice& device, std::uint64_t size_bytes, std::uint64_t stream,
             const PoolPair& pool) { return device.allocate(size_bytes, stream, to_pool(pool)); },
          nb::arg("size_bytes"), nb::arg("stream") = 0, nb::arg("pool") = PoolPair(0, 0))
      .def("free", &SimulatedDevice::free, nb::arg("address"))
      .def("empty_cache", &SimulatedDevice::empty_cache)
      .def(
          "release_pool",
          [](SimulatedDevice& device, const PoolPair& pool) { device.release_pool(to_pool(pool)); },
          nb::arg("pool"))
      .def(
          "empty_pool",
          [](SimulatedDevice& device, const PoolPair& pool) { device.empty_pool(to_pool(pool)); },
          nb::arg("pool"))
      .def("limit_fraction", &SimulatedDevice::limit_fraction, nb::arg("fraction"))
      .def("reset_peaks", &SimulatedDevice::reset_peaks)
      .def("statistics", statistics)
      .def_prop_ro(
          "allocated_bytes",
          [](const SimulatedDevice& device) { return device.counters().allocated_bytes.current(); })
      .def_prop_ro(
          "reserved_bytes",
          [](const SimulatedDevice& device) { return device.counters().reserved_bytes.current(); })
      .def_prop_ro(
          "peak_allocated_bytes",
          [](const SimulatedDevice& device) { return device.counters().allocated_bytes.peak(); })
      .def_prop_ro(
          "peak_reserved_bytes",
          [](const SimulatedDevice& device) { return device.counters().reserved_bytes.peak(); })
      .def_prop_ro("most_allocated_bytes", &SimulatedDevice::peak_allocated_bytes)
      .def_prop_ro("most_reserved_bytes", &SimulatedDevice::peak_reserved_bytes)
      .def_prop_ro("most_reserved_range", &SimulatedDevice::peak_reserved_range)
      .def_prop_ro("free_bytes", &SimulatedDevice::free_bytes);
  module.def("capture_join_simulated", capture::join_simulated, nb::arg("recording"),
             nb::arg("device"), nb::call_guard<nb::gil_scoped_release>());
  module.def("capture_hide_files", capture::hide_files, nb::arg("path_beginnings"),
             nb::call_guard<nb::gil_scoped_release>());
}

}  // namespace gpumemprof::bindings
