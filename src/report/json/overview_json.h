// The overview as JSON. Keys are docs/concepts.md's terms, sizes are bytes, unknown is null.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "analysis/overview/overview.h"
#include "store/store.h"

namespace gpumemprof {

inline constexpr int kOverviewSchemaVersion = 1;
inline constexpr std::size_t kAllGroups = static_cast<std::size_t>(-1);

// One report; `top` bounds the lists of live groups.
std::string overview_json(const Overview& overview, const Store& store, std::size_t top);

// Several reports in one document: {"schema_version", "reports": [...]}.
std::string reports_json(const std::vector<std::string>& reports);

}  // namespace gpumemprof
