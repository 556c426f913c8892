// `gpumemprof calibrate`: listed here, but handled by the Python package, whose torch uses the GPU.
#include <CLI/CLI.hpp>

#include "cli/verb.h"

namespace gpumemprof::cli {

VerbAction prepare_calibrate(CLI::App& verb) {
  verb.prefix_command();
  return [](const Environment&) {
    return fail({ErrorCode::environment, "calibrate needs Python", "",
                 "type python -m gpumemprof calibrate"});
  };
}

}  // namespace gpumemprof::cli
