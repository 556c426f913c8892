#include "report/arrow/batch.h"

#include <array>
#include <vector>

namespace gpumemprof::arrow {
namespace {

// What an array owns. A reader may move children and the dictionary out of it (their release is
// then null), so each of them keeps the store alive on its own.
struct ArrayParts {
  std::shared_ptr<const Store> store;
  Values values;
  std::vector<std::unique_ptr<ArrowArray>> children;
  std::vector<ArrowArray*> child_pointers;
  std::unique_ptr<ArrowArray> dictionary;

  ~ArrayParts() {
    for (const auto& child : children) release_if_here(child.get());
    release_if_here(dictionary.get());
  }
  static void release_if_here(ArrowArray* array) {
    if (array != nullptr && array->release != nullptr) array->release(array);
  }
};

void release_array(ArrowArray* array) {
  delete static_cast<ArrayParts*>(array->private_data);
  array->release = nullptr;
}

void finish(ArrowArray* out, std::unique_ptr<ArrayParts> parts) {
  for (const auto& child : parts->children) parts->child_pointers.push_back(child.get());
  // Some readers treat a null buffer of size 0 as missing.
  static constexpr std::array<std::int64_t, 1> kNothing = {0};
  for (std::size_t index = 1; index < parts->values.buffers.size(); ++index) {
    if (parts->values.buffers[index] == nullptr) parts->values.buffers[index] = kNothing.data();
  }
  *out = {};
  out->length = static_cast<std::int64_t>(parts->values.length);
  out->null_count = static_cast<std::int64_t>(parts->values.null_count);
  out->n_buffers = static_cast<std::int64_t>(parts->values.buffers.size());
  out->buffers = parts->values.buffers.data();
  out->n_children = static_cast<std::int64_t>(parts->children.size());
  out->children = parts->children.empty() ? nullptr : parts->child_pointers.data();
  out->dictionary = parts->dictionary.get();
  out->release = release_array;
  out->private_data = parts.release();
}

std::unique_ptr<ArrayParts> parts_for(const std::shared_ptr<const Store>& store, Values values) {
  auto parts = std::make_unique<ArrayParts>();
  parts->store = store;
  parts->values = std::move(values);
  return parts;
}

// The texts of a small enumeration, back to back.
template <typename NameAt>
Values names_of(std::size_t count, NameAt name_at) {
  Buffer offsets = zeroed_buffer((count + 1) * sizeof(std::int32_t));
  auto* offset = static_cast<std::int32_t*>(offsets.get());
  std::string names;
  for (std::size_t index = 0; index < count; ++index) {
    names += name_at(index);
    offset[index + 1] = static_cast<std::int32_t>(names.size());
  }
  Buffer bytes = zeroed_buffer(names.size());
  names.copy(static_cast<char*>(bytes.get()), names.size());
  Values values;
  values.length = count;
  values.buffers.push_back(values.own(std::move(offsets)));
  values.buffers.push_back(values.own(std::move(bytes)));
  return values;
}

Values action_names() {
  return names_of(kActionCount,
                  [](std::size_t index) { return action_name(static_cast<Action>(index)); });
}

Values source_names() {
  return names_of(kMemorySourceCount, [](std::size_t index) {
    return memory_source_name(static_cast<MemorySource>(index));
  });
}

Values texts_of(const Store& store) {
  Values values;
  values.length = store.strings().size();
  values.buffers.push_back(store.strings().offsets().data());
  values.buffers.push_back(store.strings().bytes().data());
  return values;
}

std::unique_ptr<ArrowArray> dictionary_for(const std::shared_ptr<const Store>& store,
                                           Dictionary kind) {
  if (kind == Dictionary::none) return nullptr;
  auto dictionary = std::make_unique<ArrowArray>();
  finish(dictionary.get(), parts_for(store, kind == Dictionary::actions   ? action_names()
                                            : kind == Dictionary::sources ? source_names()
                                                                          : texts_of(*store)));
  return dictionary;
}

std::vector<Values> column_values(const Store& store, TableKind kind, const DeviceRecord* device,
                                  OtherValues other) {
  std::vector<Values> columns;
  for (const TableColumn& column : columns_of(kind)) {
    const auto found = other.find(column.field.name);
    columns.push_back(found == other.end() ? column.values(store, device)
                                           : std::move(found->second));
  }
  return columns;
}

void export_columns(const std::shared_ptr<const Store>& store, TableKind kind, std::size_t length,
                    std::vector<Values> columns, ArrowArray* out) {
  Values rows;
  rows.length = length;
  auto batch = parts_for(store, std::move(rows));
  for (std::size_t index = 0; index < columns.size(); ++index) {
    GMP_CHECK(columns[index].length == length);
    auto parts = parts_for(store, std::move(columns[index]));
    parts->dictionary = dictionary_for(store, columns_of(kind)[index].field.dictionary);
    batch->children.push_back(std::make_unique<ArrowArray>());
    finish(batch->children.back().get(), std::move(parts));
  }
  finish(out, std::move(batch));
}

bool bit_of(const void* bits, std::size_t row) {
  const unsigned byte = static_cast<const std::uint8_t*>(bits)[row / 8];
  return (byte >> (row % 8) & 1U) != 0;
}

void set_bit(std::uint8_t* bits, std::size_t row) {
  bits[row / 8] = static_cast<std::uint8_t>(bits[row / 8] | (1U << (row % 8)));
}

template <typename T>
Buffer copied_numbers(const void* from, std::span<const std::uint32_t> rows) {
  Buffer buffer = zeroed_buffer(rows.size() * sizeof(T));
  auto* to = static_cast<T*>(buffer.get());
  for (std::size_t row = 0; row < rows.size(); ++row)
    to[row] = static_cast<const T*>(from)[rows[row]];
  return buffer;
}

Buffer copied_bits(const void* from, std::span<const std::uint32_t> rows) {
  Buffer buffer = zeroed_buffer((rows.size() + 7) / 8);
  auto* to = static_cast<std::uint8_t*>(buffer.get());
  for (std::size_t row = 0; row < rows.size(); ++row) {
    if (bit_of(from, rows[row])) set_bit(to, row);
  }
  return buffer;
}

Buffer copied_data(std::string_view format, const void* from, std::span<const std::uint32_t> rows) {
  if (format == kBool) return copied_bits(from, rows);
  if (format == kInt8) return copied_numbers<std::uint8_t>(from, rows);
  if (format == kUInt32) return copied_numbers<std::uint32_t>(from, rows);
  GMP_CHECK(format == kInt64);
  return copied_numbers<std::uint64_t>(from, rows);
}

Values copied(std::string_view format, const Values& column, std::span<const std::uint32_t> rows) {
  if (format == kLargeUtf8)
    return copied_texts(rows.size(), [&](std::size_t row) { return text_at(column, rows[row]); });
  Values values;
  values.length = rows.size();
  if (column.buffers[0] != nullptr) {
    Buffer bitmap = copied_bits(column.buffers[0], rows);
    for (std::size_t row = 0; row < rows.size(); ++row)
      values.null_count += bit_of(bitmap.get(), row) ? 0U : 1U;
    if (values.null_count > 0) values.buffers[0] = values.own(std::move(bitmap));
  }
  values.buffers.push_back(values.own(copied_data(format, column.buffers[1], rows)));
  return values;
}

}  // namespace

CopiedRows::CopiedRows(std::shared_ptr<const Store> store, TableKind kind,
                       const DeviceRecord* device, OtherValues other)
    : store_(std::move(store)),
      kind_(kind),
      columns_(column_values(*store_, kind, device, std::move(other))) {}

void CopiedRows::export_rows(std::span<const std::uint32_t> rows, ArrowArray* out) const {
  std::vector<Values> columns;
  for (std::size_t index = 0; index < columns_.size(); ++index)
    columns.push_back(copied(columns_of(kind_)[index].field.format, columns_[index], rows));
  export_columns(store_, kind_, rows.size(), std::move(columns), out);
}

void export_batch(const std::shared_ptr<const Store>& store, TableKind kind,
                  const DeviceRecord* device, ArrowArray* out, OtherValues other) {
  export_columns(store, kind, row_count(kind, *store, device),
                 column_values(*store, kind, device, std::move(other)), out);
}

}  // namespace gpumemprof::arrow
