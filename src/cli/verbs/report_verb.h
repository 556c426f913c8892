// `gpumemprof report`: where the memory went. `demo` reports too, on a file of its own.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "cli/cli.h"

namespace CLI {
class App;
}

namespace gpumemprof::cli {

struct ReportFlags {
  std::vector<std::string> files;
  std::optional<std::string> top;
  std::string at = "peak";
  std::string device;
  bool is_json = false;
  bool shows_modules = false;
  bool shows_steps = false;
  std::string html;  // where to write the viewer's page with the recording in it
  bool overwrites = false;
  std::string command;  // the command line to repeat this; empty: built from the files
};

// The flags that do not depend on which file is reported.
void add_report_flags(CLI::App& verb, ReportFlags& flags);
int run_report(const ReportFlags& flags, const Environment& environment);

}  // namespace gpumemprof::cli
