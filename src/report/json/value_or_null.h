// What is unknown is null in JSON, never 0 or an empty text.
#pragma once

#include <nlohmann/json.hpp>
#include <optional>
#include <string>

namespace gpumemprof {

template <typename Value>
nlohmann::ordered_json value_or_null(const std::optional<Value>& value) {
  return value ? nlohmann::ordered_json(*value) : nlohmann::ordered_json();
}

inline nlohmann::ordered_json text_or_null(const std::string& text) {
  return text.empty() ? nlohmann::ordered_json() : nlohmann::ordered_json(text);
}

}  // namespace gpumemprof
