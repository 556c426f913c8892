// `gpumemprof ranks`: listed here, but handled by the Python package, which reads the summaries.
#include <CLI/CLI.hpp>

#include "cli/verb.h"

namespace gpumemprof::cli {

VerbAction prepare_ranks(CLI::App& verb) {
  verb.prefix_command();
  return [](const Environment&) {
    return fail({ErrorCode::environment, "ranks needs Python", "",
                 "type python -m gpumemprof ranks and the folder"});
  };
}

}  // namespace gpumemprof::cli
