// Table: one table of a recording, readable by any Arrow library without copying: a stream with one
// batch per device.
//
// Columns point straight into the store. A batch, and each column a reader takes out of it, keeps
// the store alive. Reading is safe from any thread.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "report/arrow/arrow_abi.h"
#include "report/arrow/columns.h"

namespace gpumemprof::arrow {

class Table {
 public:
  Table(std::shared_ptr<const Store> store, TableKind kind)
      : store_(std::move(store)), kind_(kind) {}

  [[nodiscard]] std::size_t rows() const;
  [[nodiscard]] std::vector<std::string> column_names() const;

  // Both write to the caller's memory; the caller then owns what was written and frees it with
  // release().
  void export_schema(ArrowSchema* out) const;
  void export_stream(ArrowArrayStream* out) const;

 private:
  std::shared_ptr<const Store> store_;
  TableKind kind_;
};

// The schema of such a table.
void export_table_schema(TableKind kind, ArrowSchema* out);

}  // namespace gpumemprof::arrow
