// What the memory is for, as JSON: parts of a device's entry in the overview.
#pragma once

#include <nlohmann/json.hpp>

#include "analysis/sources/sources.h"
#include "store/store.h"

namespace gpumemprof {

// {"parameters": {"bytes_at_peak", "bytes_max", "provenance"}, …, "unknown": {…}}
nlohmann::ordered_json sources_json(const DeviceSources& sources);
// {"bytes_at_peak", "bytes_max", "provenance"}
nlohmann::ordered_json figure_json(const SourceFigure& figure);
// {"parameters": bytes, …, "unknown": bytes, "rounding": bytes}
nlohmann::ordered_json source_bytes_json(const SourceBytes& bytes);
// {"event_index": […], "parameters": […], …, "rounding": […]}
nlohmann::ordered_json series_json(const DeviceSources& sources);
// At most `limit` of them: the first and the last.
nlohmann::ordered_json steps_json(const DeviceSources& sources, std::size_t limit);
nlohmann::ordered_json modules_json(const DeviceSources& sources, const Store& store);

}  // namespace gpumemprof
