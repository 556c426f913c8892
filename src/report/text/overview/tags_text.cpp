#include "report/text/overview/tags_text.h"

#include <fmt/core.h>

#include <algorithm>

#include "base/bytes.h"
#include "report/text/page.h"

namespace gpumemprof::text {
namespace {

constexpr std::size_t kLeastSource = 15;  // columns
constexpr std::size_t kNamesShown = 5;

class TagPage : private Page {
 public:
  TagPage(const TagReport& report, const Store& store, const std::string& moment,
          const TextStyle& style)
      : Page(style.width), report_(report), store_(store), moment_(moment), style_(style) {}

  std::string run() {
    tags();
    names();
    return std::move(out_);
  }

 private:
  static constexpr std::size_t kFirstColumn = 44;

  void row(const std::string& what, const std::string& bytes, const std::string& max,
           const std::string& blocks) {
    line(left(shortened(what, kFirstColumn), kFirstColumn) + right(bytes, 10) + right(max, 10) +
         right(blocks, 8));
  }

  void tags() {
    if (report_.tags.empty()) return;
    out_ += "\n";
    row("  Tagged memory " + moment_, "bytes", "max", "blocks");
    const std::size_t shown = std::min(style_.top, report_.tags.size());
    for (std::size_t index = 0; index < shown; ++index) {
      const TagFigures& tag = report_.tags[index];
      row("    " + std::string(store_.text(tag.tag)), format_bytes(tag.bytes),
          format_bytes(tag.bytes_max), grouped(tag.blocks));
    }
    if (report_.tags.size() > shown)
      line(fmt::format("    and {}", counted(report_.tags.size() - shown, "more tag")));
  }

  void names() {
    if (report_.largest.empty()) return;
    out_ += "\n";
    line(fmt::format("  Largest named tensors {}: {} in {}", moment_,
                     format_bytes(report_.named_bytes), counted(report_.named_blocks, "block")));
    const std::size_t shown = std::min({style_.top, kNamesShown, report_.largest.size()});
    const auto source_of = [](const NamedTensor& tensor) {
      return std::string(memory_source_info(tensor.source).display_name) +
             (tensor.is_measured ? "" : " (inferred)");
    };
    std::size_t width = kLeastSource;
    for (std::size_t index = 0; index < shown; ++index)
      width = std::max(width, source_of(report_.largest[index]).size());
    for (std::size_t index = 0; index < shown; ++index) {
      const NamedTensor& tensor = report_.largest[index];
      const std::string figures =
          fmt::format("  {:>9}  {:<{}}  ", format_bytes(tensor.bytes), source_of(tensor), width);
      line(figures + shortened(std::string(store_.text(tensor.name)),
                               style_.width - std::min(style_.width, figures.size())));
    }
  }

  const TagReport& report_;
  const Store& store_;
  const std::string& moment_;
  const TextStyle& style_;
};

}  // namespace

std::string tag_tables(const TagReport& report, const Store& store, const std::string& moment,
                       const TextStyle& style) {
  return TagPage(report, store, moment, style).run();
}

}  // namespace gpumemprof::text
