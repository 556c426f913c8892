// LongTable: one table of a recording too long for memory. Each time it is read, the recording is
// read twice, in windows, and some rows at a time are copied for the reader.
#pragma once

#include <memory>
#include <mutex>
#include <optional>
#include <string>

#include "report/arrow/table.h"

namespace gpumemprof {

class LongTable final : public arrow::Table {
 public:
  // `rows`: none if it is not known how many there are.
  LongTable(std::string path, arrow::TableKind kind, std::optional<std::size_t> rows)
      : arrow::Table(kind), path_(std::move(path)), rows_(rows) {}

  // Reads the recording, unless it is known. Throws if it cannot be read.
  [[nodiscard]] std::size_t rows() const override;

 private:
  [[nodiscard]] std::unique_ptr<arrow::BatchSource> batches() const override;

  std::string path_;
  mutable std::mutex counting_;  // guards what follows
  mutable std::optional<std::size_t> rows_;
};

}  // namespace gpumemprof
