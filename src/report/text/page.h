// Page: text for a terminal of a given width, written line by line. Styles only where it has
// colour.
#pragma once

#include <string>

#include "report/text/text_format.h"

namespace gpumemprof::text {

class Page {
 protected:
  explicit Page(std::size_t width, bool has_color = false) : width_(width), has_color_(has_color) {}

  void line(const std::string& text) { out_ += text + "\n"; }
  // Wrapped where it is too long; every line is indented by `indent` columns.
  void paragraph(const std::string& text, std::size_t indent) {
    line(std::string(indent, ' ') + wrapped(text, width_, indent));
  }

  [[nodiscard]] std::string bold(const std::string& text) const { return styled("1", text); }
  [[nodiscard]] std::string dim(const std::string& text) const { return styled("2", text); }
  [[nodiscard]] std::string red(const std::string& text) const { return styled("1;31", text); }
  // What comes first, and is read first.
  void headline(const std::string& text) { line(bold(wrapped(text, width_, 0))); }
  void alarm(const std::string& text) { line(red(wrapped(text, width_, 0))); }

  std::string out_;

 private:
  [[nodiscard]] std::string styled(const char* style, const std::string& text) const {
    return has_color_ ? std::string("\033[") + style + "m" + text + "\033[0m" : text;
  }

  std::size_t width_;
  bool has_color_;
};

}  // namespace gpumemprof::text
