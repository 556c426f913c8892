// What was live at a moment by the module that allocated it.
#pragma once

#include <vector>

#include "analysis/sources/sources.h"

namespace gpumemprof {

// Parents before their children, the largest child first. Memory outside modules is not included.
// By instance if the recording distinguishes modules (store.has_module_numbers()).
std::vector<ModuleNode> modules_at(const Store& store, const DeviceRecord& record,
                                   const AllocationLabels& labels, Moment moment);

// The innermost node that holds at least half of a source; none if it is spread out.
std::optional<std::size_t> main_module(const Store& store, const std::vector<ModuleNode>& modules,
                                       MemorySource source, std::uint64_t source_bytes);

}  // namespace gpumemprof
