#include "report/view/typescript.h"

#include <fmt/core.h>

#include "analysis/moment/flame.h"
#include "analysis/timeline/timeline.h"
#include "event/memory_source.h"
#include "report/view/answer_shapes.h"
#include "report/view/labels.h"
#include "report/view/questions.h"

namespace gpumemprof::view {
namespace {

class TypeScript {
 public:
  std::string answers() {
    add_heading();
    for (const ChoiceFacts& choice : choice_table()) add_choice(choice);
    for (const Shape& shape : answer_shapes()) add_shape(shape);
    out_.pop_back();
    return std::move(out_);
  }

  std::string questions() {
    add_heading();
    line("import type * as answers from \"./answers\";");
    line("");
    add_constants();
    add_questions();
    return std::move(out_);
  }

 private:
  void add_heading() {
    line("// Generated from src/report/view/questions.h and answer_shapes.cpp. The test");
    line("// report.ViewerTypes checks it; with GPUMEMPROF_UPDATE_GOLDEN=1 it writes this file.");
    line("");
  }
  void line(std::string_view text) { out_.append(text) += '\n'; }
  void comment(std::string_view indent, std::string_view text) {
    if (!text.empty()) line(fmt::format("{}/** {} */", indent, text));
  }

  // What a page must do as the server does.
  void add_constants() {
    const FlameOptions flame;
    comment("", "Buckets in a tile of the timeline.");
    line(fmt::format("export const TILE_BUCKETS = {};", Timeline::kTileBuckets));
    comment("", "The most that one answer lists.");
    line(fmt::format("export const MOST_BANDS = {};", kMostBands));
    comment("", "What a flame graph leaves out.");
    line(fmt::format(
        "export const FLAME_LIMITS = {{ nodes: {}, levels: {}, finestShare: {} }} as const;",
        flame.most_nodes, flame.most_levels, FlameOptions::kFinestShare));
    comment("", "Labels of what has no stack, no line, no module, and of what backward allocated.");
    line(fmt::format("export const NO_STACK = \"{}\";", kNoStack));
    line(fmt::format("export const NO_LINE = \"{}\";", kNoLine));
    line(fmt::format("export const NO_MODULE = \"{}\";", kNoModuleLabel));
    line(fmt::format("export const IN_BACKWARD = \"{}\";", kInBackward));
    comment("", "What sources of memory are called, by the name that data has for them.");
    line("export const SOURCE_LABELS: Readonly<Record<string, string>> = {");
    for (const MemorySourceInfo& source : kMemorySourceTable)
      line(fmt::format("  {}: \"{}\",", source.name, source.display_name));
    line("};");
    line("");
  }

  void add_choice(const ChoiceFacts& choice) {
    std::string names;
    for (const std::string_view name : choice.names)
      names += fmt::format("{}\"{}\"", names.empty() ? "" : ", ", name);
    line(fmt::format("export const {}_VALUES = [{}] as const;", upper(choice.type), names));
    line(fmt::format("export type {0} = (typeof {1}_VALUES)[number];", choice.type,
                     upper(choice.type)));
    line("");
  }

  // "GroupBy" as "GROUP_BY".
  static std::string upper(std::string_view name) {
    std::string out;
    for (const char letter : name) {
      const bool is_upper = letter >= 'A' && letter <= 'Z';
      if (is_upper && !out.empty()) out += '_';
      out += is_upper ? letter : static_cast<char>(letter - 'a' + 'A');
    }
    return out;
  }

  void add_shape(const Shape& shape) {
    comment("", shape.comment);
    if (!shape.alias.empty()) {
      line(fmt::format("export type {} = {};", shape.name, shape.alias));
    } else {
      line(fmt::format("export interface {} {{", shape.name));
      for (const ShapeField& field : shape.fields) {
        comment("  ", field.comment);
        line(fmt::format("  {}{}: {};", field.name, field.is_optional ? "?" : "", field.type));
      }
      line("}");
    }
    line("");
  }

  void add_questions() {
    comment("", "Every question: what it asks and what is answered.");
    line("export interface Questions {");
    for (const QuestionFacts& question : question_table()) {
      std::string parameters;
      for (const ParameterFacts& parameter : question.parameters) {
        const bool is_choice = parameter.type != "number" && parameter.type != "string";
        parameters += fmt::format("{}{}{}: {}{}", parameters.empty() ? "" : "; ", parameter.name,
                                  parameter.is_optional ? "?" : "", is_choice ? "answers." : "",
                                  parameter.type);
      }
      line(fmt::format("  {}: {{ asks: {}; answer: answers.{} }};", question.name,
                       parameters.empty() ? "object" : "{ " + parameters + " }", question.answer));
    }
    line("}");
    line("");
    comment("", "Parameters in the order in which a question is written.");
    line("export const PARAMETERS = {");
    for (const QuestionFacts& question : question_table()) {
      std::string names;
      for (const ParameterFacts& parameter : question.parameters)
        names += fmt::format("{}\"{}\"", names.empty() ? "" : ", ", parameter.name);
      line(fmt::format("  {}: [{}],", question.name, names));
    }
    line(
        "} as const satisfies { [Name in keyof Questions]: readonly (keyof "
        "Questions[Name][\"asks\"])[] };");
  }

  std::string out_;
};

}  // namespace

std::string answers_typescript() { return TypeScript().answers(); }
std::string questions_typescript() { return TypeScript().questions(); }

}  // namespace gpumemprof::view
