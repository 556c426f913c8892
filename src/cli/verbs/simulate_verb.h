// `gpumemprof replay`: a recorded run under other allocator settings.
#pragma once

#include <string>
#include <vector>

namespace CLI {
class App;
}

namespace gpumemprof::cli {

struct SimulateFlags {
  std::string file;
  std::vector<std::string> alloc_confs;
  std::vector<std::string> memory_limits;
  std::string torch_version;
  std::string recorded_limit;
  std::string device;
  std::string output;
  bool searches = false;
  bool overwrites = false;
  bool is_json = false;
};

void add_simulate_verb(CLI::App& app, SimulateFlags& flags);
int run_simulate(const SimulateFlags& flags);

}  // namespace gpumemprof::cli
