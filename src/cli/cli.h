// The command line: verbs, flags, streams and exit codes. The only folder whose code prints, exits
// or owns a terminal.
#pragma once

#include <string>

namespace gpumemprof::cli {

// What the command line takes from its environment.
struct Environment {
  std::string demo_file;    // the snapshot that ships with the package
  std::string viewer_file;  // the viewer's page
};

// Returns the exit code: 0 success, 1 a limit the user set was exceeded, 2 usage, 3 bad input, 4
// environment, 70 bug.
int main(int argc, const char* const* argv, const Environment& environment);

}  // namespace gpumemprof::cli
