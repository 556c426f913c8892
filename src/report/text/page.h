// Page: text for a terminal of a given width, written line by line.
#pragma once

#include <string>

#include "report/text/text_format.h"

namespace gpumemprof::text {

class Page {
 protected:
  explicit Page(std::size_t width) : width_(width) {}

  void line(const std::string& text) { out_ += text + "\n"; }
  // Wrapped where it is too long; every line is indented by `indent` columns.
  void paragraph(const std::string& text, std::size_t indent) {
    line(std::string(indent, ' ') + wrapped(text, width_, indent));
  }

  std::string out_;

 private:
  std::size_t width_;
};

}  // namespace gpumemprof::text
