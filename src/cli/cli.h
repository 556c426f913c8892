// The command line: verbs, flags, streams and exit codes. The only room that prints, exits or owns
// a terminal.
#pragma once

#include <string>

namespace gpumemprof::cli {

// What the surroundings tell the command line.
struct Environment {
  std::string demo_file;    // the snapshot that ships with the package
  std::string viewer_file;  // the viewer's page
};

// Returns the exit code: 0 fine, 1 a limit the user set was exceeded, 2 usage, 3 bad input, 4
// environment, 70 bug.
int main(int argc, const char* const* argv, const Environment& environment);

}  // namespace gpumemprof::cli
