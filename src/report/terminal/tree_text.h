// `gpumemprof tree`: the call stacks of what is live at a moment, as a tree.
#pragma once

#include <string>

#include "analysis/overview/overview.h"
#include "report/text/overview/overview_text.h"
#include "store/store.h"

namespace gpumemprof {

struct TreeStyle {
  TextStyle text;                // text.top: so many stacks, the largest
  bool shows_all_calls = false;  // otherwise calls that lead to one place only are one line
};

std::string tree_text(const Overview& overview, const Store& store, const TreeStyle& style);
// All calls, each with the row of its caller.
std::string tree_json(const Overview& overview, const Store& store);

}  // namespace gpumemprof
