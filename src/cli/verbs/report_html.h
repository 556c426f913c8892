// `gpumemprof report --html`, and what it shares with `view`: the viewer's page.
#pragma once

#include <string>
#include <vector>

#include "cli/verb.h"

namespace gpumemprof::cli {

// The page as it ships, with no recording in it.
Result<std::string> load_viewer_page(const Environment& environment);

// Truncated files are shown up to where they end, and reported.
void print_cuts(const Recordings& recordings);

int write_html(const std::vector<std::string>& files, const std::string& output, bool overwrites,
               const Environment& environment);

}  // namespace gpumemprof::cli
