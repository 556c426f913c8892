// Where an optimizer's parameters and their gradients are in memory.
#include <vector>

#include "bindings.h"
#include "capture/capture.h"
#include "gathered_tensors.h"

namespace gpumemprof::bindings {
namespace {

using capture::TensorPlaces;

// Rows of (tensor, address of its storage, address of its gradient's storage or 0).
void validate_tensors(const nb::list& rows) {
  std::vector<capture::ExpectedTensor> expected;
  for (const nb::handle row : rows) {
    const nb::object tensor = row[0];
    expected.push_back(
        {address_of(tensor), nb::cast<std::uint64_t>(row[1]), nb::cast<std::uint64_t>(row[2])});
  }
  if (const Status validated = capture::validate_tensors(expected); !validated)
    raise(validated.error());
}

TensorPlaces::Change read(TensorPlaces& places, const nb::list& groups, const nb::tuple& kinds) {
  std::vector<std::uintptr_t> tensors;
  if (gather_tensors(groups, kinds, tensors)) return places.read(tensors);
  places.forget();
  return TensorPlaces::Change::other;
}

}  // namespace

bool gather_tensors(const nb::list& groups, const nb::tuple& kinds,
                    std::vector<std::uintptr_t>& tensors) {
  static PyObject* const kKey = PyUnicode_InternFromString("params");
  for (const nb::handle group : groups) {
    if (!PyDict_Check(group.ptr())) return false;
    PyObject* members = PyDict_GetItem(group.ptr(), kKey);
    if (members == nullptr || !PyList_Check(members)) return false;
    const Py_ssize_t count = PyList_Size(members);
    for (Py_ssize_t index = 0; index < count; ++index) {
      PyObject* tensor = PyList_GetItem(members, index);
      if (tensor == nullptr) throw nb::python_error();
      const auto* kind = reinterpret_cast<PyObject*>(Py_TYPE(tensor));
      bool is_plain = false;
      for (const nb::handle each : kinds) is_plain = is_plain || each.ptr() == kind;
      if (!is_plain) return false;
      tensors.push_back(address_of(tensor));
    }
  }
  return true;
}

void bind_places(nb::module_& module) {
  module.def("capture_validate_tensors", validate_tensors, nb::arg("rows"));
  nb::enum_<TensorPlaces::Change>(module, "PlaceChange")
      .value("none", TensorPlaces::Change::none)
      .value("gradients_moved", TensorPlaces::Change::gradients_moved)
      .value("other", TensorPlaces::Change::other);
  nb::class_<TensorPlaces>(module, "TensorPlaces")
      .def(nb::init<>())
      .def("read", read, nb::arg("groups"), nb::arg("kinds"))
      .def("forget", &TensorPlaces::forget)
      .def("gradient_count", &TensorPlaces::gradient_count)
      .def(
          "move_labels",
          [](const TensorPlaces& places, std::uint32_t number) {
            return capture::move_labels(number, places.gradients());
          },
          nb::arg("number"));
}

}  // namespace gpumemprof::bindings
