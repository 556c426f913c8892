#include "report/arrow/table.h"

#include <cerrno>
#include <exception>
#include <new>

#include "report/arrow/batch.h"

namespace gpumemprof::arrow {
namespace {

// The devices that have rows; one null device where all share the table.
std::vector<const DeviceRecord*> batches_of(const Store& store, TableKind kind) {
  std::vector<const DeviceRecord*> batches;
  if (!is_per_device(kind)) {
    batches.push_back(nullptr);
  } else {
    for (const auto& device : store.devices()) batches.push_back(device.get());
  }
  std::erase_if(batches,
                [&](const DeviceRecord* device) { return row_count(kind, store, device) == 0; });
  return batches;
}

std::vector<Field> fields_of(TableKind kind) {
  std::vector<Field> fields;
  for (const TableColumn& column : columns_of(kind)) fields.push_back(column.field);
  return fields;
}

class StoreBatches final : public BatchSource {
 public:
  StoreBatches(std::shared_ptr<const Store> store, TableKind kind)
      : store_(std::move(store)), kind_(kind), devices_(batches_of(*store_, kind)) {}

  bool next(ArrowArray* out) override {
    if (next_ == devices_.size()) return false;
    export_batch(store_, kind_, devices_[next_], out);
    ++next_;
    return true;
  }

 private:
  std::shared_ptr<const Store> store_;
  TableKind kind_;
  std::vector<const DeviceRecord*> devices_;
  std::size_t next_ = 0;
};

struct Stream {
  std::unique_ptr<BatchSource> batches;
  TableKind kind;
  std::string last_error;
};

Stream& stream_of(ArrowArrayStream* stream) { return *static_cast<Stream*>(stream->private_data); }

// No exception may cross into C: return an errno and a text instead.
template <typename Work>
int guarded(Stream& stream, Work work) {
  try {
    work();
    return 0;
  } catch (const std::bad_alloc&) {
    stream.last_error = "not enough memory";
    return ENOMEM;
  } catch (const std::exception& error) {
    stream.last_error = error.what();
    return EIO;
  }
}

int get_schema(ArrowArrayStream* self, ArrowSchema* out) {
  Stream& stream = stream_of(self);
  return guarded(stream, [&] { export_schema(fields_of(stream.kind), out); });
}

int get_next(ArrowArrayStream* self, ArrowArray* out) {
  Stream& stream = stream_of(self);
  return guarded(stream, [&] {
    *out = {};
    if (!stream.batches->next(out)) *out = {};  // a released array ends the stream
  });
}

const char* get_last_error(ArrowArrayStream* self) {
  const std::string& error = stream_of(self).last_error;
  return error.empty() ? nullptr : error.c_str();
}

void release_stream(ArrowArrayStream* self) {
  delete &stream_of(self);
  self->release = nullptr;
}

}  // namespace

void export_table_schema(TableKind kind, ArrowSchema* out) { export_schema(fields_of(kind), out); }

std::size_t StoreTable::rows() const {
  std::size_t rows = 0;
  for (const DeviceRecord* device : batches_of(*store_, kind()))
    rows += row_count(kind(), *store_, device);
  return rows;
}

std::unique_ptr<BatchSource> StoreTable::batches() const {
  return std::make_unique<StoreBatches>(store_, kind());
}

std::vector<std::string> Table::column_names() const {
  std::vector<std::string> names;
  for (const TableColumn& column : columns_of(kind_)) names.emplace_back(column.field.name);
  return names;
}

void Table::export_schema(ArrowSchema* out) const { arrow::export_schema(fields_of(kind_), out); }

void Table::export_stream(ArrowArrayStream* out) const {
  auto stream = std::make_unique<Stream>(Stream{batches(), kind_, {}});
  *out = {};
  out->get_schema = get_schema;
  out->get_next = get_next;
  out->get_last_error = get_last_error;
  out->release = release_stream;
  out->private_data = stream.release();
}

}  // namespace gpumemprof::arrow
