#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include "bindings.h"
#include "report/arrow/table.h"

namespace gpumemprof::bindings {
namespace {

// A capsule that owns an Arrow struct, with the names of Arrow's PyCapsule protocol. A reader that
// takes over the contents leaves a struct without release.
template <typename ArrowStruct>
nb::capsule capsule_of(std::unique_ptr<ArrowStruct> filled, const char* name) {
  nb::capsule capsule(filled.get(), name, [](void* pointer) noexcept {
    const std::unique_ptr<ArrowStruct> owned(static_cast<ArrowStruct*>(pointer));
    if (owned->release != nullptr) owned->release(owned.get());
  });
  static_cast<void>(filled.release());
  return capsule;
}

nb::capsule arrow_schema(const arrow::Table& table) {
  auto schema = std::make_unique<ArrowSchema>();
  table.export_schema(schema.get());
  return capsule_of(std::move(schema), "arrow_schema");
}

// A requested schema is only a hint; the protocol leaves it to the reader to cast what it gets.
nb::capsule arrow_stream(const arrow::Table& table, const nb::object& /*requested_schema*/) {
  auto stream = std::make_unique<ArrowArrayStream>();
  table.export_stream(stream.get());
  return capsule_of(std::move(stream), "arrow_array_stream");
}

std::string table_repr(const arrow::Table& table) {
  std::string names;
  for (const std::string& name : table.column_names()) names += (names.empty() ? "" : ", ") + name;
  return "<Table of " + std::to_string(table.rows()) + (table.rows() == 1 ? " row: " : " rows: ") +
         names + ">";
}

// Through another library, which must be installed.
nb::object read_by(const char* library, const char* reader, nb::handle table) {
  return nb::module_::import_(library).attr(reader)(table);
}

arrow::Table table_of(const RecordingHandle& handle, arrow::TableKind kind) {
  // Shares ownership of the whole recording.
  return {std::shared_ptr<const Store>(handle.recording, &handle.recording->store()), kind};
}

}  // namespace

void bind_tables(nb::module_& module) {
  nb::class_<arrow::Table>(
      module, "Table",
      "One table of a recording, for any library that reads Arrow data: pyarrow.table(x), "
      "polars.DataFrame(x), DuckDB's SELECT ... FROM x. Columns are read in place; the data "
      "stays valid after the recording is gone.\n\n"
      ">>> import gpumemprof\n"
      ">>> gpumemprof.load(gpumemprof.demo_path()).frames.column_names\n"
      "['name', 'file', 'line']\n")
      .def_prop_ro("column_names", &arrow::Table::column_names,
                   "The names of the columns, in order.")
      .def("__len__", &arrow::Table::rows)
      .def("__repr__", table_repr)
      .def(
          "to_pandas",
          [](nb::handle table) { return read_by("pyarrow", "table", table).attr("to_pandas")(); },
          "The rows as a pandas.DataFrame; needs pandas and pyarrow.")
      .def(
          "to_polars", [](nb::handle table) { return read_by("polars", "DataFrame", table); },
          "The rows as a polars.DataFrame; needs polars.")
      .def("__arrow_c_schema__", arrow_schema, "The schema, by Arrow's PyCapsule protocol.")
      .def("__arrow_c_stream__", arrow_stream, nb::arg("requested_schema").none() = nb::none(),
           "The rows, one batch a device, by Arrow's PyCapsule protocol.");
  nb::enum_<arrow::TableKind>(module, "TableKind")
      .value("events", arrow::TableKind::events)
      .value("allocations", arrow::TableKind::allocations)
      .value("segments", arrow::TableKind::segments)
      .value("stacks", arrow::TableKind::stacks)
      .value("frames", arrow::TableKind::frames);
  module.def("table", table_of, nb::arg("recording"), nb::arg("kind"));
}

}  // namespace gpumemprof::bindings
