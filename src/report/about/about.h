// What an export says about itself: what made it, whether its figures were measured, and what is
// missing. Formats that can hold text hold this.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "analysis/completeness/completeness.h"
#include "store/store.h"

namespace gpumemprof {

// A name and what it says; the same name may come again.
using AboutLine = std::pair<std::string, std::string>;

// made_by, recording, figures, sources, lost_events, and `missing` for each thing that is missing.
std::vector<AboutLine> about_run(const std::string& path, const Store& store,
                                 const Completeness& completeness);

// "lost_events: 12": one line of text for each.
std::vector<std::string> about_texts(const std::vector<AboutLine>& about);

}  // namespace gpumemprof
