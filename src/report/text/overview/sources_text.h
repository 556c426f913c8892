// What the memory is for, as text: one sentence, and the table that adds up to what is reserved.
#pragma once

#include <string>

#include "analysis/overview/overview.h"
#include "report/text/overview/overview_text.h"
#include "store/store.h"

namespace gpumemprof::text {

// "Activations dominate the peak: 3.1 of 4.8 GiB, at the end of forward; 62 % of them in …"
std::string source_sentence(const DeviceOverview& device, const Store& store);

// For the requested moment; `moment` names it, e.g. "at the peak". `measured` is what measured
// figures are called: in a predicted run they are predicted.
std::string source_table(const DeviceOverview& device, const std::string& moment, bool has_pool,
                         std::string_view measured, const TextStyle& style);

}  // namespace gpumemprof::text
