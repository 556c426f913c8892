// `gpumemprof estimate`: listed here, but handled by the Python package, in whose interpreter the
// program runs.
#include <CLI/CLI.hpp>

#include "cli/verb.h"

namespace gpumemprof::cli {

VerbAction prepare_estimate(CLI::App& verb) {
  verb.prefix_command();
  return [](const Environment&) {
    return fail({ErrorCode::environment, "estimate needs Python", "",
                 "type python -m gpumemprof estimate and the script"});
  };
}

}  // namespace gpumemprof::cli
