// `gpumemprof live`: listed here, but handled by the Python package, which draws the screen.
#include "cli/python_verbs.h"

namespace gpumemprof::cli {

VerbAction prepare_live(CLI::App& verb) { return python_verb(verb, "FILE"); }

}  // namespace gpumemprof::cli
