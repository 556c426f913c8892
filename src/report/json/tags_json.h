// Tags and names of tensors as JSON.
#pragma once

#include <cstddef>
#include <nlohmann/json.hpp>

#include "analysis/tags/tags.h"

namespace gpumemprof {

// [{"tag", "bytes", "blocks", "bytes_max", "allocations"}, …]
nlohmann::ordered_json tags_json(const Store& store, const TagReport& report);
// {"bytes", "blocks", "largest": [{"name", "source", "bytes", "provenance"}, …]}, at most `top`.
nlohmann::ordered_json named_json(const Store& store, const TagReport& report, std::size_t top);

}  // namespace gpumemprof
