// `gpumemprof export`: listed here, but handled by the Python package, which calls PyArrow.
#include <CLI/CLI.hpp>

#include "cli/verb.h"

namespace gpumemprof::cli {

VerbAction prepare_export(CLI::App& verb) {
  verb.prefix_command();
  return [](const Environment&) {
    return fail({ErrorCode::environment, "export needs Python", "",
                 "type python -m gpumemprof export and what to write"});
  };
}

}  // namespace gpumemprof::cli
