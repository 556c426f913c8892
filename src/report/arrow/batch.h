// A batch: all columns of a table for one device, as one ArrowArray.
#pragma once

#include <memory>

#include "report/arrow/arrow_abi.h"
#include "report/arrow/columns.h"

namespace gpumemprof::arrow {

// The device is null for the tables that all devices share.
void export_batch(const std::shared_ptr<const Store>& store, TableKind kind,
                  const DeviceRecord* device, ArrowArray* out);

}  // namespace gpumemprof::arrow
