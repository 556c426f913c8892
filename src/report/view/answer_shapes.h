// The shapes of what the viewer's page reads: of the answers to its questions (questions.h) and of
// what a standalone page holds besides. The page's types are generated from them (typescript.h); a
// test compares them with answers of real recordings.
#pragma once

#include <span>
#include <string_view>
#include <vector>

namespace gpumemprof::view {

struct ShapeField {
  std::string_view name;
  // In TypeScript: number, string, boolean, null, unknown, "text", the name of another shape, T[],
  // [T, U], Record<string, T>, T | U.
  std::string_view type;
  std::string_view comment = "";
  bool is_optional = false;
};

struct Shape {
  std::string_view name;
  std::string_view comment;
  // An answer has these and no others.
  std::vector<ShapeField> fields;
  // Where it is another name for a type, and has no fields.
  std::string_view alias = "";
  // Part of a larger object, of which the page reads only this.
  bool is_partial = false;
};

std::span<const Shape> answer_shapes();
// Of these, what concerns ranges of a run and its pool under other settings.
void add_range_shapes(std::vector<Shape>& shapes);

}  // namespace gpumemprof::view
