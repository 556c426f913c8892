// AdvicePage: what the pages of the advice have in common: bands, slowdowns, code.
#pragma once

#include <fmt/core.h>

#include <algorithm>
#include <optional>
#include <string>

#include "analysis/advice/advice.h"
#include "base/bytes.h"
#include "report/text/page.h"

namespace gpumemprof::text {

class AdvicePage : protected Page {
 protected:
  AdvicePage(const Advice& advice, std::size_t width, bool has_color = false)
      : Page(width, has_color), advice_(advice) {}

  static std::string band(const PredictedBytes& bytes) {
    return fmt::format("{} ({} to {})", format_bytes(bytes.bytes), format_bytes(bytes.low_bytes),
                       format_bytes(bytes.high_bytes));
  }

  // Of a remedy or a set of them; "~" marks a rule of thumb.
  template <typename Figures>
  static std::string slowdown(const Figures& figures) {
    if (!figures.slowdown_pct) return "?";
    return fmt::format("{}{:.0f} %", figures.is_slowdown_measured ? "" : "~",
                       *figures.slowdown_pct);
  }

  void code(const std::string& text) {
    std::size_t from = 0;
    while (from <= text.size()) {
      const std::size_t end = std::min(text.find('\n', from), text.size());
      line("    " + text.substr(from, end - from));
      from = end + 1;
    }
  }

  void code_of(const std::string& how, const std::string& how_trainer) {
    code(how);
    if (!how_trainer.empty()) code("# or, with transformers' Trainer:\n" + how_trainer);
    if (how.find("self.blocks") != std::string::npos)
      paragraph(
          advice_.has_module_names
              ? "self.blocks stands for your model's own loop: several of its blocks share a name."
              : "self.blocks stands for your model's list of blocks: this recording has no module "
                "names.",
          4);
  }

  const Advice& advice_;
};

// The part about a limit, as requested by --fit; empty where it was not requested.
std::string fit_text(const Advice& advice, std::size_t width);

}  // namespace gpumemprof::text
