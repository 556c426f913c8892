// `gpumemprof advise`: what each remedy would save in this run, and what it costs.
#pragma once

#include <optional>
#include <string>
#include <vector>

namespace CLI {
class App;
}

namespace gpumemprof::cli {

struct AdviseFlags {
  std::string file;
  std::string other;
  std::string fit;
  std::string device;
  std::optional<std::string> batch;
  std::optional<std::string> sequence;
  std::vector<std::string> codes;
  std::vector<std::string> together;
  bool is_json = false;
};

void add_advise_verb(CLI::App& app, AdviseFlags& flags);
int run_advise(const AdviseFlags& flags);

}  // namespace gpumemprof::cli
