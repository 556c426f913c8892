// The overview as text for a terminal: verdict first, evidence second, the next command last.
#pragma once

#include <cstddef>
#include <string>

#include "analysis/overview/overview.h"
#include "store/store.h"

namespace gpumemprof {

struct TextStyle {
  std::size_t width = 80;
  bool has_color = false;
  std::size_t top = 10;  // lines of code shown
  bool shows_modules = false;
  bool shows_steps = false;
  std::string command;  // that made this report; empty: "gpumemprof report FILE"
};

std::string overview_text(const Overview& overview, const Store& store, const TextStyle& style);

}  // namespace gpumemprof
