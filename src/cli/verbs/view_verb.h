// `gpumemprof view`: the viewer, served to a browser on this machine.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "cli/cli.h"

namespace CLI {
class App;
}

namespace gpumemprof::cli {

struct ViewFlags {
  std::vector<std::string> files;
  std::optional<std::string> port;
  bool opens_browser = false;
  bool never_opens_browser = false;
};

void add_view_verb(CLI::App& app, ViewFlags& flags);
int run_view(const ViewFlags& flags, const Environment& environment);

// `gpumemprof report --html OUT FILE...`
int write_html(const std::vector<std::string>& files, const std::string& output, bool overwrites,
               const Environment& environment);

}  // namespace gpumemprof::cli
