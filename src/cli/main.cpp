// The command line without Python, for development.
#include <cstdlib>

#include "cli/cli.h"

int main(int argc, char** argv) {
  const char* demo_file = std::getenv("GPUMEMPROF_DEMO_FILE");
  const char* viewer_file = std::getenv("GPUMEMPROF_VIEWER_FILE");
  return gpumemprof::cli::main(
      argc, argv,
      {demo_file == nullptr ? "" : demo_file, viewer_file == nullptr ? "" : viewer_file});
}
