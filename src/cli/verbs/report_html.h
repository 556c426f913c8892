// `gpumemprof report --html`, and what it shares with `view`: the viewer's page.
#pragma once

#include <string>
#include <vector>

#include "cli/verb.h"
#include "session/long_view/viewed_run.h"

namespace gpumemprof::cli {

// The page as it ships, with no recording in it.
Result<std::string> load_viewer_page(const Environment& environment);
Result<std::string> load_page(const std::string& path);

// With a line of progress on the terminal; says what there is to say about an index.
Result<std::vector<ViewedRun>> open_viewed_runs(const std::vector<std::string>& files,
                                                std::size_t most_devices);
// Truncated files are shown up to where they end, and reported. Whether there are any.
bool print_cuts(const std::vector<ViewedRun>& runs);

int write_html(const std::vector<std::string>& files, const std::string& output, bool overwrites,
               const Environment& environment);

}  // namespace gpumemprof::cli
