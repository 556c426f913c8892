// Table: one table of a recording, readable by any Arrow library as a stream of batches.
//
// Of a recording in memory, there is one batch per device, whose columns point straight into the
// store: nothing is copied. A batch, and each column a reader takes out of it, keeps the store
// alive. Reading is safe from any thread.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "report/arrow/arrow_abi.h"
#include "report/arrow/columns.h"

namespace gpumemprof::arrow {

// Batches one after the other.
class BatchSource {
 public:
  BatchSource() = default;
  BatchSource(const BatchSource&) = delete;
  BatchSource& operator=(const BatchSource&) = delete;
  virtual ~BatchSource() = default;
  // False: there are no more, and nothing was written. Throws if it cannot be made.
  virtual bool next(ArrowArray* out) = 0;
};

class Table {
 public:
  explicit Table(TableKind kind) : kind_(kind) {}
  Table(const Table&) = delete;
  Table& operator=(const Table&) = delete;
  virtual ~Table() = default;

  [[nodiscard]] virtual std::size_t rows() const = 0;
  [[nodiscard]] std::vector<std::string> column_names() const;

  // Both write to the caller's memory; the caller then owns what was written and frees it with
  // release().
  void export_schema(ArrowSchema* out) const;
  void export_stream(ArrowArrayStream* out) const;

 protected:
  [[nodiscard]] virtual std::unique_ptr<BatchSource> batches() const = 0;
  [[nodiscard]] TableKind kind() const { return kind_; }

 private:
  TableKind kind_;
};

// Of a recording in memory.
class StoreTable final : public Table {
 public:
  StoreTable(std::shared_ptr<const Store> store, TableKind kind)
      : Table(kind), store_(std::move(store)) {}
  [[nodiscard]] std::size_t rows() const override;

 private:
  [[nodiscard]] std::unique_ptr<BatchSource> batches() const override;
  std::shared_ptr<const Store> store_;
};

// The schema of such a table.
void export_table_schema(TableKind kind, ArrowSchema* out);

}  // namespace gpumemprof::arrow
