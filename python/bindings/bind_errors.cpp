#include <exception>
#include <stdexcept>

#include "bindings.h"

namespace gpumemprof::bindings {
namespace {

const char* code_name(ErrorCode code) {
  switch (code) {
    case ErrorCode::limit_exceeded:
      return "limit_exceeded";
    case ErrorCode::usage:
      return "usage";
    case ErrorCode::bad_input:
      return "bad_input";
    case ErrorCode::environment:
      return "environment";
    case ErrorCode::bug:
      break;
  }
  return "bug";
}

// The classes are written in Python, where they can carry documentation and attributes.
void set_python_error(const Error& error) {
  const nb::object exception =
      nb::module_::import_("gpumemprof.errors")
          .attr("from_native")(to_str(error.message), code_name(error.code), to_str(error.where),
                               to_str(error.hint));
  PyErr_SetObject(reinterpret_cast<PyObject*>(Py_TYPE(exception.ptr())), exception.ptr());
}

// Every exception of that family is an internal error; nanobind would turn some into a ValueError.
void translate_bug(const std::exception_ptr& thrown, void* /*payload*/) {
  try {
    std::rethrow_exception(thrown);
  } catch (const std::logic_error& bug) {
    set_python_error({ErrorCode::bug, bug.what(), "", ""});
  }
}

}  // namespace

nb::str to_str(std::string_view text) {
  PyObject* decoded =
      PyUnicode_DecodeUTF8(text.data(), static_cast<Py_ssize_t>(text.size()), "replace");
  if (decoded == nullptr) throw nb::python_error();
  return nb::steal<nb::str>(decoded);
}

void raise(const Error& error) {
  set_python_error(error);
  throw nb::python_error();
}

void bind_errors(nb::module_& /*module*/) { nb::register_exception_translator(translate_bug); }

}  // namespace gpumemprof::bindings
