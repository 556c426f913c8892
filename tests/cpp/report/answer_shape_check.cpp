#include "report/answer_shape_check.h"

#include <fmt/core.h>

#include <algorithm>
#include <vector>

#include "report/view/answer_shapes.h"
#include "report/view/questions.h"

namespace gpumemprof::view {
namespace {

using Json = nlohmann::json;

std::string_view trimmed(std::string_view text) {
  while (text.starts_with(' ')) text.remove_prefix(1);
  while (text.ends_with(' ')) text.remove_suffix(1);
  return text;
}

// At separators that are not inside brackets or quotes.
std::vector<std::string_view> split(std::string_view text, char separator) {
  std::vector<std::string_view> parts;
  std::size_t start = 0;
  int depth = 0;
  for (std::size_t at = 0; at < text.size(); ++at) {
    const char letter = text[at];
    if (letter == '[' || letter == '(' || letter == '<') ++depth;
    if (letter == ']' || letter == ')' || letter == '>') --depth;
    if (letter != separator || depth > 0) continue;
    parts.push_back(trimmed(text.substr(start, at - start)));
    start = at + 1;
  }
  parts.push_back(trimmed(text.substr(start)));
  return parts;
}

std::string wrong(const Json& value, std::string_view type, const std::string& place) {
  return place + ": " + value.type_name() + " is not " + std::string(type);
}

std::string object_misfit(const Json& value, const Shape& shape, const std::string& place) {
  if (!value.is_object()) return wrong(value, shape.name, place);
  for (const ShapeField& field : shape.fields) {
    const auto found = value.find(field.name);
    const std::string inside = place + "." + std::string(field.name);
    if (found == value.end()) {
      if (!field.is_optional) return inside + " is missing";
      continue;
    }
    if (std::string bad = misfit(*found, field.type, inside); !bad.empty()) return bad;
  }
  if (shape.is_partial) return "";
  for (const auto& [name, unused] : value.items()) {
    const auto is_it = [&name = name](const ShapeField& field) { return field.name == name; };
    if (std::ranges::none_of(shape.fields, is_it))
      return fmt::format("{}.{} is not declared", place, name);
  }
  return "";
}

std::string list_misfit(const Json& value, std::string_view type, const std::string& place) {
  if (!value.is_array()) return wrong(value, type, place);
  std::string_view item = type.substr(0, type.size() - 2);
  if (item.starts_with('(')) item = item.substr(1, item.size() - 2);
  for (std::size_t at = 0; at < value.size(); ++at) {
    std::string bad = misfit(value[at], item, place + "[" + std::to_string(at) + "]");
    if (!bad.empty()) return bad;
  }
  return "";
}

std::string tuple_misfit(const Json& value, std::string_view type, const std::string& place) {
  const std::vector<std::string_view> items = split(type.substr(1, type.size() - 2), ',');
  if (!value.is_array() || value.size() != items.size()) return wrong(value, type, place);
  for (std::size_t at = 0; at < items.size(); ++at) {
    std::string bad = misfit(value[at], items[at], place + "[" + std::to_string(at) + "]");
    if (!bad.empty()) return bad;
  }
  return "";
}

std::string record_misfit(const Json& value, std::string_view type, const std::string& place) {
  constexpr std::string_view kStart = "Record<string,";
  if (!value.is_object()) return wrong(value, type, place);
  const std::string_view item =
      trimmed(type.substr(kStart.size(), type.size() - kStart.size() - 1));
  for (const auto& [name, held] : value.items()) {
    if (std::string bad = misfit(held, item, fmt::format("{}.{}", place, name)); !bad.empty())
      return bad;
  }
  return "";
}

std::string named_misfit(const Json& value, std::string_view type, const std::string& place) {
  for (const Shape& shape : answer_shapes()) {
    if (shape.name != type) continue;
    return shape.alias.empty() ? object_misfit(value, shape, place)
                               : misfit(value, shape.alias, place);
  }
  for (const ChoiceFacts& choice : choice_table()) {
    if (choice.type != type) continue;
    const bool is_one =
        value.is_string() &&
        std::ranges::find(choice.names, value.get<std::string>()) != choice.names.end();
    return is_one ? "" : wrong(value, type, place);
  }
  return place + ": there is no type " + std::string(type);
}

}  // namespace

std::string misfit(const Json& value, std::string_view type, const std::string& place) {
  const std::vector<std::string_view> either = split(type, '|');
  if (either.size() > 1) {
    std::string first;
    for (const std::string_view one : either) {
      std::string bad = misfit(value, one, place);
      if (bad.empty()) return "";
      // The one that goes deeper says more than "object is not null".
      if (bad.size() > first.size()) first = std::move(bad);
    }
    return first;
  }
  if (type == "unknown") return "";
  if (type == "number") return value.is_number() ? "" : wrong(value, type, place);
  if (type == "string") return value.is_string() ? "" : wrong(value, type, place);
  if (type == "boolean") return value.is_boolean() ? "" : wrong(value, type, place);
  if (type == "null") return value.is_null() ? "" : wrong(value, type, place);
  if (type.starts_with('"')) {
    const std::string text(type.substr(1, type.size() - 2));
    return value == text ? "" : wrong(value, type, place);
  }
  if (type.ends_with("[]")) return list_misfit(value, type, place);
  if (type.starts_with('[')) return tuple_misfit(value, type, place);
  if (type.starts_with("Record<")) return record_misfit(value, type, place);
  return named_misfit(value, type, place);
}

}  // namespace gpumemprof::view
