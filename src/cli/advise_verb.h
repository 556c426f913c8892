// `gpumemprof advise`: what each remedy would save in this run, and what it costs.
#pragma once

#include <cstdint>
#include <string>

namespace CLI {
class App;
}

namespace gpumemprof::cli {

struct AdviseFlags {
  std::string file;
  std::string other;
  std::string fit;
  std::string device;
  std::uint64_t batch = 0;     // 0: not given
  std::uint64_t sequence = 0;  // the same
  bool is_json = false;
};

void add_advise_verb(CLI::App& app, AdviseFlags& flags);
int run_advise(const AdviseFlags& flags);

}  // namespace gpumemprof::cli
