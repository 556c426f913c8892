// A batch: all columns of a table for one device, as one ArrowArray, or some rows of them, copied.
#pragma once

#include <map>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "report/arrow/arrow_abi.h"
#include "report/arrow/columns.h"
#include "report/arrow/values.h"

namespace gpumemprof::arrow {

// Values that stand for those of a column, by its name.
using OtherValues = std::map<std::string_view, Values>;

// Rows of a table whose columns do not stay: those of a window that is read.
class CopiedRows {
 public:
  // The device must outlive it; its batches keep the store alive.
  CopiedRows(std::shared_ptr<const Store> store, TableKind kind, const DeviceRecord* device,
             OtherValues other);

  // One batch of these rows.
  void export_rows(std::span<const std::uint32_t> rows, ArrowArray* out) const;

 private:
  std::shared_ptr<const Store> store_;
  TableKind kind_;
  std::vector<Values> columns_;
};

// The device is null for the tables that all devices share.
void export_batch(const std::shared_ptr<const Store>& store, TableKind kind,
                  const DeviceRecord* device, ArrowArray* out, OtherValues other = {});

}  // namespace gpumemprof::arrow
