// What the JSON of tree, stats, table and compare share: which recording it is about, which moment,
// frames, and how a document is written.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "analysis/overview/overview.h"
#include "store/store.h"

namespace gpumemprof::terminal {

// path, kind, events, allocations, frees, completeness: as in the JSON of `report`.
nlohmann::ordered_json input_json(const Overview& overview, const Store& store);
// moment ("peak", "end" or an event), event_index, allocated_bytes: as in the report's `at`.
nlohmann::ordered_json moment_json(const DeviceOverview& device);
// Null: no stack was recorded.
nlohmann::ordered_json frame_json(const Store& store, FrameId frame);
nlohmann::ordered_json time_us_json(std::int64_t time_ns);
// Paths from the command line need not be UTF-8.
std::string document(const nlohmann::ordered_json& json);

}  // namespace gpumemprof::terminal
