// A batch: all columns of a table for one device, as one ArrowArray.
#pragma once

#include <map>
#include <memory>
#include <string_view>

#include "report/arrow/arrow_abi.h"
#include "report/arrow/columns.h"
#include "report/arrow/values.h"

namespace gpumemprof::arrow {

// Values that stand for those of a column, by its name.
using OtherValues = std::map<std::string_view, Values>;

// The device is null for the tables that all devices share.
void export_batch(const std::shared_ptr<const Store>& store, TableKind kind,
                  const DeviceRecord* device, ArrowArray* out, OtherValues other = {});

}  // namespace gpumemprof::arrow
