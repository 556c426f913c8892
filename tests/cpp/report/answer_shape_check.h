// Whether an answer of the viewer has the shape that the page expects.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

namespace gpumemprof::view {

// Empty, or the first place where it does not: "$.devices[0].peak: string is not number | null".
// `type` is written as in ShapeField.
std::string misfit(const nlohmann::json& value, std::string_view type,
                   const std::string& place = "$");

}  // namespace gpumemprof::view
