#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include "analysis/advice/advice.h"
#include "bindings.h"
#include "report/json/advice_json.h"

namespace gpumemprof::bindings {
namespace {

Advice advice_of(const RecordingHandle& handle, std::optional<std::uint64_t> fit,
                 std::optional<std::uint64_t> batch, std::optional<std::uint64_t> sequence,
                 std::optional<DeviceIndex> device, const RecordingHandle* other,
                 std::vector<std::vector<std::string>> together) {
  AdviceOptions options;
  options.together = std::move(together);
  options.fit_bytes = fit;
  options.batch = batch;
  options.sequence = sequence;
  options.device = device;
  Result<Advice> advice = [&] {
    const nb::gil_scoped_release no_gil;
    return handle.recording->advise(options, other == nullptr ? nullptr : other->recording.get());
  }();
  return value_or_raise(std::move(advice));
}

nb::str advice_as_json(const RecordingHandle& handle, std::optional<std::uint64_t> fit,
                       std::optional<std::uint64_t> batch, std::optional<std::uint64_t> sequence,
                       std::optional<DeviceIndex> device, const RecordingHandle* other,
                       std::vector<std::vector<std::string>> together) {
  return to_str(
      advice_json(advice_of(handle, fit, batch, sequence, device, other, std::move(together)),
                  handle.recording->store()));
}

}  // namespace

void bind_advice(nb::module_& module) {
  nb::class_<RemedyEntry>(module, "RemedyEntry")
      .def_ro("name", &RemedyEntry::name)
      .def_ro("title", &RemedyEntry::title)
      .def_prop_ro(
          "cost",
          [](const RemedyEntry& entry) { return std::string(remedy_cost_name(entry.cost)); })
      .def_prop_ro("is_inference",
                   [](const RemedyEntry& entry) { return entry.kind == RunKind::inference; })
      .def_ro("family", &RemedyEntry::family)
      .def_ro("needs_pool", &RemedyEntry::needs_pool)
      .def_ro("is_verifiable", &RemedyEntry::is_verifiable);
  module.def("remedies", list_remedies);
  module.def("advice_json", advice_as_json, nb::arg("recording"), nb::arg("fit").none(),
             nb::arg("batch").none(), nb::arg("sequence").none(), nb::arg("device").none(),
             nb::arg("other").none(), nb::arg("together"));
}

}  // namespace gpumemprof::bindings
