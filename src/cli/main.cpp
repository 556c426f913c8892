// The native command: every verb that only reads, without Python.
#include <cstdlib>
#include <filesystem>
#include <string>
#include <system_error>

#include "cli/cli.h"

namespace {

// Installed below share/gpumemprof: beside the folder of this program, wherever the installation
// was moved to, or where it was meant to be if the program cannot find out where it is.
std::string data_file(const char* name, const char* overriding) {
  if (const char* given = std::getenv(overriding)) return given;
  std::error_code unknown;
  const std::filesystem::path program = std::filesystem::read_symlink("/proc/self/exe", unknown);
  if (!unknown) {
    const std::filesystem::path file =
        program.parent_path().parent_path() / GPUMEMPROF_DATA_FOLDER / name;
    if (std::filesystem::exists(file, unknown)) return file.string();
  }
  const std::filesystem::path file = std::filesystem::path(GPUMEMPROF_FULL_DATA_FOLDER) / name;
  return std::filesystem::exists(file, unknown) ? file.string() : std::string();
}

}  // namespace

int main(int argc, char** argv) {
  return gpumemprof::cli::main(argc, argv,
                               {data_file("demo.pickle.gz", "GPUMEMPROF_DEMO_FILE"),
                                data_file("viewer.html", "GPUMEMPROF_VIEWER_FILE")});
}
