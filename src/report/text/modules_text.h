// The tree of modules as text: what each held at the peak, by what it is for.
#pragma once

#include <string>

#include "analysis/overview/overview.h"
#include "report/text/overview/overview_text.h"

namespace gpumemprof::text {

// "transformer.h.3.mlp", or the line that calls it where module instances are not distinguished.
std::string module_name(const ModuleNode& node, const Store& store);

std::string module_tree(const DeviceOverview& device, const Store& store, const TextStyle& style);

}  // namespace gpumemprof::text
