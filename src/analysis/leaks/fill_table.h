// Fills a FloorTable from a whole recording of one device.
#pragma once

#include "analysis/code/code_kind.h"
#include "analysis/leaks/floor_table.h"
#include "store/store.h"

namespace gpumemprof {

// The name of the annotation around a run of Python's garbage collector that freed memory.
inline constexpr std::string_view kCollection = "garbage collection";

// The floors must be those of the repetitions, and the record must have labels.
FloorTable fill_table(const Store& store, const DeviceRecord& record, const StepFloors& floors);

// What an allocation is, also where its label does not say: by the code that made it.
MemorySource likely_source(const DeviceRecord& record, std::size_t row,
                           const std::vector<CodeKind>& kinds);

}  // namespace gpumemprof
