// The command line: verbs, flags, streams and exit codes. The only folder whose code prints, exits
// or owns a terminal.
#pragma once

#include <optional>
#include <string>
#include <vector>

namespace gpumemprof::cli {

// What `view` shows of a folder of ranks. The package makes it, which reads the summaries.
struct RankPages {
  std::string page_file;                // the page about ranks
  std::string report;                   // what it shows, compressed, as it reads it
  std::vector<std::string> recordings;  // of each rank; empty where only the summary is there
};

// What the command line takes from its environment.
struct Environment {
  std::string demo_file;                          // the snapshot that ships with the package
  std::string viewer_file;                        // the viewer's page
  std::optional<RankPages> ranks = std::nullopt;  // for `view` of a folder of ranks
  // The Python package handles what needs Python before it calls the command line.
  bool is_in_package = false;
};

// Returns the exit code: 0 success, 1 a limit the user set was exceeded, 2 usage, 3 bad input, 4
// environment, 70 bug.
int main(int argc, const char* const* argv, const Environment& environment);

}  // namespace gpumemprof::cli
