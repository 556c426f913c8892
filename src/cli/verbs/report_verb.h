// `gpumemprof report` and `gpumemprof demo`.
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

void add_report_verb(CLI::App& app, ReportFlags& flags);
int run_report(const ReportFlags& flags, const Environment& environment);

void add_demo_verb(CLI::App& app, ReportFlags& flags);
int run_demo(ReportFlags flags, const Environment& environment);

}  // namespace gpumemprof::cli
