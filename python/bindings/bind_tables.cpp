#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <memory>

#include "bindings.h"
#include "report/arrow/batch.h"
#include "report/arrow/table.h"
#include "report/text/overview/completeness_text.h"
#include "session/tables/long_table.h"
#include "session/tables/run_tables.h"

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

// Of a long recording, they are counted by reading it.
std::size_t rows_of(const arrow::Table& table) {
  const nb::gil_scoped_release no_gil;
  return table.rows();
}

std::string table_repr(const arrow::Table& table) {
  std::string names;
  for (const std::string& name : table.column_names()) names += (names.empty() ? "" : ", ") + name;
  const std::size_t rows = rows_of(table);
  return "<Table of " + std::to_string(rows) + (rows == 1 ? " row: " : " rows: ") + names + ">";
}

nb::module_ imported(const char* library, const char* what) {
  try {
    return nb::module_::import_(library);
  } catch (nb::python_error& error) {
    if (!error.matches(PyExc_ModuleNotFoundError)) throw;
  }
  raise({ErrorCode::environment,
         std::string(what) + "() needs " + library + ", which is not installed", "",
         std::string("run: pip install ") + library});
}

nb::object to_pandas(nb::handle table) {
  const nb::module_ pyarrow = imported("pyarrow", "to_pandas");
  imported("pandas", "to_pandas");  // which PyArrow uses
  return pyarrow.attr("table")(table).attr("to_pandas")();
}

nb::object to_polars(nb::handle table) {
  return imported("polars", "to_polars").attr("DataFrame")(table);
}

// Shares ownership of the whole recording.
template <typename Handle>
std::unique_ptr<arrow::Table> store_table(const Handle& handle, arrow::TableKind kind) {
  return std::make_unique<arrow::StoreTable>(
      std::shared_ptr<const Store>(handle.recording, &handle.recording->store()), kind);
}

std::unique_ptr<arrow::Table> table_of_long(const LongHandle& handle, arrow::TableKind kind) {
  if (!arrow::is_per_device(kind)) return store_table(handle, kind);
  return std::make_unique<LongTable>(handle.recording->path(), kind,
                                     kind == arrow::TableKind::events
                                         ? std::optional<std::size_t>(handle.recording->events())
                                         : std::nullopt);
}

nb::object bytes_of(const std::vector<std::uint32_t>* numbers) {
  if (numbers == nullptr) return nb::none();
  return nb::bytes(reinterpret_cast<const char*>(numbers->data()),
                   numbers->size() * sizeof(std::uint32_t));
}

// A batch of all rows of the part's record, by Arrow's PyCapsule protocol.
nb::tuple batch_of(TablePart& part) {
  auto schema = std::make_unique<ArrowSchema>();
  arrow::export_table_schema(part.kind, schema.get());
  auto array = std::make_unique<ArrowArray>();
  // The run owns its store, and outlives the call.
  const std::shared_ptr<const Store> store(std::shared_ptr<const Store>(), &part.store);
  arrow::export_batch(store, part.kind, part.device, array.get(), std::move(part.other));
  return nb::make_tuple(capsule_of(std::move(schema), "arrow_schema"),
                        capsule_of(std::move(array), "arrow_array"));
}

nb::object object_of(const Cell& cell) {
  if (const auto* number = std::get_if<std::int64_t>(&cell)) return nb::int_(*number);
  if (const auto* text = std::get_if<std::string>(&cell)) return to_str(*text);
  return nb::none();
}

nb::dict columns_of(const SmallTable& table) {
  nb::dict columns;
  for (std::size_t column = 0; column < table.columns.size(); ++column) {
    nb::list values;
    for (const std::vector<Cell>& row : table.rows) values.append(object_of(row[column]));
    columns[table.columns[column].c_str()] = values;
  }
  return columns;
}

// Calls `show(name, batch, rows, first, count)` for each part of a table that is wanted: the batch
// is a pair of capsules, which are valid until it returns; of its rows, those listed are meant, or
// if there are none the range. Small tables go to `show_small(name, columns)`.
Status show_wanted(TabledRun& run, std::optional<DeviceIndex> device,
                   const std::vector<std::string>& wanted, const nb::callable& show,
                   const nb::callable& show_small) {
  return show_tables(
      run, device,
      {[&](std::string_view name) { return std::ranges::find(wanted, name) != wanted.end(); },
       [&](TablePart& part) {
         const nb::gil_scoped_acquire gil;
         show(std::string(part.name), batch_of(part), bytes_of(part.rows), part.first, part.count);
       },
       [&](const SmallTable& table) {
         const nb::gil_scoped_acquire gil;
         show_small(table.name, columns_of(table));
       }});
}

// What is missing from the run, in sentences; where it was cut off, that is the second.
nb::tuple missing_of(const TabledRun& run) {
  nb::list missing;
  Completeness completeness = run.completeness();
  completeness.excerpts.clear();  // what was not asked for is not missing
  for (const std::string& sentence : text::missing_sentences(completeness))
    missing.append(to_str(sentence));
  const std::optional<Error> cut = run.cut();
  return nb::make_tuple(missing, cut ? nb::object(to_str(cut->sentence())) : nb::none());
}

nb::tuple show_tables_of_path(const std::string& native_path, std::optional<DeviceIndex> device,
                              const std::vector<std::string>& wanted, const nb::callable& show,
                              const nb::callable& show_small) {
  Result<std::unique_ptr<TabledRun>> run = [&]() -> Result<std::unique_ptr<TabledRun>> {
    const nb::gil_scoped_release no_gil;
    Result<std::unique_ptr<TabledRun>> opened = TabledRun::open(native_path);
    if (!opened) return opened;
    const Status shown = show_wanted(*opened.value(), device, wanted, show, show_small);
    if (!shown) return shown.error();
    return opened;
  }();
  return missing_of(*value_or_raise(std::move(run)));
}

nb::tuple show_tables_of_file(const nb::bytes& path, std::optional<DeviceIndex> device,
                              const std::vector<std::string>& wanted, const nb::callable& show,
                              const nb::callable& show_small) {
  return show_tables_of_path({path.c_str(), path.size()}, device, wanted, show, show_small);
}

nb::tuple show_tables_of_long(const LongHandle& handle, std::optional<DeviceIndex> device,
                              const std::vector<std::string>& wanted, const nb::callable& show,
                              const nb::callable& show_small) {
  return show_tables_of_path(handle.recording->path(), device, wanted, show, show_small);
}

nb::tuple show_tables_of_recording(const RecordingHandle& handle, std::optional<DeviceIndex> device,
                                   const std::vector<std::string>& wanted, const nb::callable& show,
                                   const nb::callable& show_small) {
  const std::unique_ptr<TabledRun> run = TabledRun::of(handle.recording);
  Status shown = [&] {
    const nb::gil_scoped_release no_gil;
    return show_wanted(*run, device, wanted, show, show_small);
  }();
  static_cast<void>(value_or_raise(std::move(shown)));
  return missing_of(*run);
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
      .def("__len__", rows_of)
      .def("__repr__", table_repr)
      .def("to_pandas", to_pandas, "The rows as a pandas.DataFrame; needs pandas and pyarrow.")
      .def("to_polars", to_polars, "The rows as a polars.DataFrame; needs polars.")
      .def("__arrow_c_schema__", arrow_schema, "The schema, by Arrow's PyCapsule protocol.")
      .def("__arrow_c_stream__", arrow_stream, nb::arg("requested_schema").none() = nb::none(),
           "The rows, by Arrow's PyCapsule protocol: one batch a device; of a long recording, "
           "batches of some thousand rows, which are read as they are asked for.");
  module.def("show_tables", show_tables_of_file, nb::arg("path"), nb::arg("device").none(),
             nb::arg("wanted"), nb::arg("show"), nb::arg("show_small"));
  module.def("show_tables", show_tables_of_recording, nb::arg("recording"),
             nb::arg("device").none(), nb::arg("wanted"), nb::arg("show"), nb::arg("show_small"));
  module.def("show_tables", show_tables_of_long, nb::arg("recording"), nb::arg("device").none(),
             nb::arg("wanted"), nb::arg("show"), nb::arg("show_small"));
  nb::enum_<arrow::TableKind>(module, "TableKind")
      .value("events", arrow::TableKind::events)
      .value("allocations", arrow::TableKind::allocations)
      .value("segments", arrow::TableKind::segments)
      .value("stacks", arrow::TableKind::stacks)
      .value("frames", arrow::TableKind::frames);
  module.def("table", store_table<RecordingHandle>, nb::arg("recording"), nb::arg("kind"));
  module.def("table", table_of_long, nb::arg("recording"), nb::arg("kind"));
}

}  // namespace gpumemprof::bindings
