// What a standalone page holds about a run as a whole: its steps, and what remedies would change,
// as far as that can be computed while the page is written.
#pragma once

#include <string>
#include <vector>

#include "report/view/page.h"
#include "session/view.h"

namespace gpumemprof {

// Adds sentences about what it does not hold.
std::vector<view::Section> whole_run_sections(const View& view,
                                              const std::vector<DeviceName>& devices,
                                              std::vector<std::string>& left_out);

}  // namespace gpumemprof
