// `gpumemprof run`: listed here, but handled by the Python package, in whose interpreter the
// program runs.
#include <CLI/CLI.hpp>

#include "cli/verb.h"

namespace gpumemprof::cli {

VerbAction prepare_run(CLI::App& verb) {
  verb.prefix_command();
  return [](const Environment&) {
    return fail({ErrorCode::environment, "run needs Python", "",
                 "type python -m gpumemprof run and the script"});
  };
}

}  // namespace gpumemprof::cli
