#include "report/csv/csv_file.h"

#include <array>
#include <charconv>
#include <cstring>

#include "event/memory_source.h"

namespace gpumemprof {
namespace {

constexpr std::size_t kFlushBytes = std::size_t{1} << 20;

template <typename Number>
void put_number(std::string& buffer, Number number) {
  std::array<char, 24> digits;
  const auto [end, error] = std::to_chars(digits.data(), digits.data() + digits.size(), number);
  buffer.append(digits.data(), end);
}

template <typename Number>
Number number_at(const void* values, std::size_t row) {
  Number number;
  std::memcpy(&number, static_cast<const char*>(values) + row * sizeof(Number), sizeof(Number));
  return number;
}

bool bit_at(const void* bits, std::size_t row) {
  const unsigned byte = static_cast<const std::uint8_t*>(bits)[row / 8];
  return (byte >> (row % 8) & 1U) != 0;
}

}  // namespace

// The columns of a batch, each with its values.
class CsvFile::Batch {
 public:
  Batch(const Store& store, arrow::TableKind kind, const DeviceRecord* device,
        arrow::OtherValues other)
      : store_(store), rows_(row_count(kind, store, device)) {
    for (const arrow::TableColumn& column : arrow::columns_of(kind)) {
      const auto found = other.find(column.field.name);
      columns_.push_back({column.field, found == other.end() ? column.values(store, device)
                                                             : std::move(found->second)});
    }
  }

  struct Filled {
    arrow::Field field;
    arrow::Values values;

    [[nodiscard]] bool is_null(std::size_t row) const {
      return values.null_count > 0 && values.buffers[0] != nullptr &&
             !bit_at(values.buffers[0], row);
    }
    // A code of a dictionary, or a number that fits.
    [[nodiscard]] std::uint32_t code(std::size_t row) const {
      return field.format == std::string_view(arrow::kInt8)
                 ? number_at<std::uint8_t>(values.buffers[1], row)
                 : number_at<std::uint32_t>(values.buffers[1], row);
    }
  };
  [[nodiscard]] const std::vector<Filled>& columns() const { return columns_; }
  [[nodiscard]] std::size_t rows() const { return rows_; }

  [[nodiscard]] std::string_view text(const Filled& column, std::size_t row) const {
    switch (column.field.dictionary) {
      case arrow::Dictionary::actions:
        return action_name(static_cast<Action>(column.code(row)));
      case arrow::Dictionary::sources:
        return memory_source_name(static_cast<MemorySource>(column.code(row)));
      case arrow::Dictionary::texts:
        return store_.text(StringId(column.code(row)));
      case arrow::Dictionary::none:
        break;
    }
    return arrow::text_at(column.values, row);
  }

 private:
  const Store& store_;
  std::size_t rows_;
  std::vector<Filled> columns_;
};

void CsvFile::flush(std::size_t at_least) {
  if (buffer_.size() < at_least) return;
  if (status_) status_ = file_->write(std::as_bytes(std::span(buffer_)));
  buffer_.clear();
}

Status CsvFile::finish() {
  flush(1);
  return status_ ? file_->close() : status_;
}

void CsvFile::put_text(std::string_view text) {
  // What a spreadsheet would compute. One apostrophe less is the text in any case.
  constexpr std::string_view kFormulaStarts = "=+-@\t\r'";
  const bool is_formula =
      !text.empty() && kFormulaStarts.find(text.front()) != std::string_view::npos;
  if (!text.empty() && !is_formula && text.find_first_of("\",\r\n") == std::string_view::npos) {
    buffer_ += text;
    return;
  }
  buffer_ += '"';
  if (is_formula) buffer_ += '\'';
  for (const char letter : text) {
    if (letter == '"') buffer_ += '"';
    buffer_ += letter;
  }
  buffer_ += '"';
}

void CsvFile::put_row(const Batch& batch, std::size_t row) {
  bool is_first = true;
  for (const Batch::Filled& column : batch.columns()) {
    if (!is_first) buffer_ += ',';
    is_first = false;
    if (column.is_null(row)) continue;
    if (column.field.dictionary != arrow::Dictionary::none) {
      put_text(batch.text(column, row));
      continue;
    }
    const void* values = column.values.buffers[1];
    switch (column.field.format[0]) {
      case 'b':
        buffer_ += bit_at(values, row) ? "true" : "false";
        break;
      case 'c':
        put_number(buffer_, int{number_at<std::int8_t>(values, row)});
        break;
      case 'I':
        put_number(buffer_, number_at<std::uint32_t>(values, row));
        break;
      case 'l':
        put_number(buffer_, number_at<std::int64_t>(values, row));
        break;
      default:
        put_text(batch.text(column, row));
    }
  }
  buffer_ += '\n';
  flush(kFlushBytes);
}

void CsvFile::add_header(arrow::TableKind kind) {
  if (has_header_) return;
  has_header_ = true;
  for (const arrow::TableColumn& column : arrow::columns_of(kind)) {
    if (&column != arrow::columns_of(kind).data()) buffer_ += ',';
    buffer_ += column.field.name;
  }
  buffer_ += '\n';
}

void CsvFile::add(const Store& store, arrow::TableKind kind, const DeviceRecord* device,
                  arrow::OtherValues other, const std::vector<std::uint32_t>* rows) {
  add_header(kind);
  const Batch batch(store, kind, device, std::move(other));
  if (rows == nullptr) {
    for (std::size_t row = 0; row < batch.rows(); ++row) put_row(batch, row);
  } else {
    for (const std::uint32_t row : *rows) put_row(batch, row);
  }
}

void CsvFile::add_range(const Store& store, arrow::TableKind kind, const DeviceRecord* device,
                        arrow::OtherValues other, std::size_t first, std::size_t count) {
  add_header(kind);
  const Batch batch(store, kind, device, std::move(other));
  for (std::size_t row = first; row < first + count; ++row) put_row(batch, row);
}

void CsvFile::add(const SmallTable& table) {
  for (const std::string& column : table.columns) {
    if (&column != table.columns.data()) buffer_ += ',';
    put_text(column);
  }
  buffer_ += '\n';
  for (const std::vector<Cell>& row : table.rows) {
    for (const Cell& cell : row) {
      if (&cell != row.data()) buffer_ += ',';
      if (const auto* number = std::get_if<std::int64_t>(&cell)) put_number(buffer_, *number);
      if (const auto* text = std::get_if<std::string>(&cell)) put_text(*text);
    }
    buffer_ += '\n';
    flush(kFlushBytes);
  }
}

}  // namespace gpumemprof
