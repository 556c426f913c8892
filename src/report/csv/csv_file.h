// CsvFile: one table as CSV (RFC 4180), written part by part. A header line names the columns. What
// is not known is an empty cell; an empty text is "".
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "analysis/run_tables/run_tables.h"
#include "base/file_sink.h"
#include "report/arrow/batch.h"
#include "report/arrow/columns.h"

namespace gpumemprof {

class CsvFile {
 public:
  explicit CsvFile(std::unique_ptr<FileSink> file) : file_(std::move(file)) {}

  // The columns of a table of the store, with the values that stand for some of them. Only these
  // rows; none: all.
  void add(const Store& store, arrow::TableKind kind, const DeviceRecord* device,
           arrow::OtherValues other, const std::vector<std::uint32_t>* rows);
  // The same for the rows [first, first + count).
  void add_range(const Store& store, arrow::TableKind kind, const DeviceRecord* device,
                 arrow::OtherValues other, std::size_t first, std::size_t count);
  void add(const SmallTable& table);
  // A table without rows has its header.
  void add_header(arrow::TableKind kind);

  // The first failure, or that of closing the file.
  Status finish();

 private:
  class Batch;

  void put_row(const Batch& batch, std::size_t row);
  void put_text(std::string_view text);
  void flush(std::size_t at_least);

  std::unique_ptr<FileSink> file_;
  std::string buffer_;
  Status status_ = Done{};
  bool has_header_ = false;
};

}  // namespace gpumemprof
