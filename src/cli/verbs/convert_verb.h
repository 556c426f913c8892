// `gpumemprof convert`: a recording in another format.
#pragma once

#include <string>

namespace CLI {
class App;
}

namespace gpumemprof::cli {

struct ConvertFlags {
  std::string file;
  std::string output;
  std::string format;
  bool overwrites = false;
};

void add_convert_verb(CLI::App& app, ConvertFlags& flags);
int run_convert(const ConvertFlags& flags);

}  // namespace gpumemprof::cli
