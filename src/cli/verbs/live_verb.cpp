// `gpumemprof live`: listed here, but handled by the Python package, which draws the screen.
#include <CLI/CLI.hpp>

#include "cli/verb.h"

namespace gpumemprof::cli {

VerbAction prepare_live(CLI::App& verb) {
  verb.prefix_command();
  return [](const Environment&) {
    return fail({ErrorCode::environment, "live needs Python", "",
                 "type python -m gpumemprof live and the recording"});
  };
}

}  // namespace gpumemprof::cli
