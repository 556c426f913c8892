#include "bindings.h"
#include "capture/capture.h"

namespace gpumemprof::bindings {
namespace {

// A list of (index, value), without the variables that have no value.
nb::list frame_values(const nb::handle& frame, std::size_t variables) {
  const nb::object frame_type = nb::module_::import_("types").attr("FrameType");
  if (!frame.type().is(frame_type)) throw nb::type_error("not a frame");
  nb::list found;
  const std::vector<std::uintptr_t> values =
      value_or_raise(capture::frame_values(address_of(frame), variables));
  for (std::size_t index = 0; index < values.size(); ++index) {
    if (values[index] == 0) continue;
    const nb::object value = nb::borrow(reinterpret_cast<PyObject*>(values[index]));  // NOLINT
    found.append(nb::make_tuple(index, value));
  }
  return found;
}

// The dict of an instance, whatever its class says about it; None if it has none.
nb::object instance_dict(const nb::handle& instance) {
  PyObject* found = PyObject_GenericGetDict(instance.ptr(), nullptr);
  if (found == nullptr) {
    PyErr_Clear();
    return nb::none();
  }
  return nb::steal(found);
}

}  // namespace

void bind_frames(nb::module_& module) {
  module.def("frame_values", frame_values, nb::arg("frame"), nb::arg("variables"));
  module.def("instance_dict", instance_dict, nb::arg("instance"));
}

}  // namespace gpumemprof::bindings
