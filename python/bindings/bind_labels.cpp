#include "bindings.h"
#include "event/label.h"
#include "event/provenance.h"

namespace gpumemprof::bindings {
namespace {

nb::object event_or_none(std::uint32_t event) {
  return event == kNoEvent ? nb::none() : nb::object(nb::int_(event));
}

// Rows of (device, source, name, is_buffer, provenance, address, requested_bytes, size_bytes,
// alloc_event, free_requested_event).
void add_labels(const Recording& recording, std::size_t device, nb::list& rows) {
  const DeviceRecord& record = *recording.store().devices()[device];
  const AllocationColumns& allocations = record.allocations;
  const AllocationLabels& labels = record.labels;
  if (labels.name.empty()) return;
  const nb::str device_name = to_str(recording.store().device_name(record.device));
  for (std::size_t row = 0; row < allocations.size(); ++row) {
    if (labels.name[row].is_none()) continue;
    rows.append(nb::make_tuple(
        device_name, to_str(memory_source_name(labels.source[row])),
        to_str(recording.store().text(labels.name[row])),
        (labels.flags[row] & AllocationLabels::kBuffer) != 0,
        to_str(
            provenance_name(labels.is_measured(row) ? Provenance::measured : Provenance::inferred)),
        allocations.address[row], allocations.requested_bytes[row], allocations.size_bytes[row],
        event_or_none(allocations.alloc_event[row]),
        event_or_none(allocations.free_requested_event[row])));
  }
}

nb::list labels(const RecordingHandle& handle) {
  nb::list rows;
  for (std::size_t device = 0; device < handle.recording->store().devices().size(); ++device)
    add_labels(*handle.recording, device, rows);
  return rows;
}

}  // namespace

void bind_labels(nb::module_& module) {
  nb::enum_<LabelKind>(module, "LabelKind")
      .value("parameter", LabelKind::parameter)
      .value("buffer", LabelKind::buffer)
      .value("gradient", LabelKind::gradient)
      .value("optimizer_state", LabelKind::optimizer_state)
      .value("input", LabelKind::input);
  nb::enum_<PhaseMark::Kind>(module, "PhaseMark")
      .value("optimizer_start", PhaseMark::Kind::optimizer_start)
      .value("optimizer_end", PhaseMark::Kind::optimizer_end)
      .value("step_start", PhaseMark::Kind::step_start);
  module.def("labels", labels, nb::arg("recording"));
}

}  // namespace gpumemprof::bindings
