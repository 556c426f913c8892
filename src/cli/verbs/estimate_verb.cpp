// `gpumemprof estimate`: listed here, but handled by the Python package, in whose interpreter the
// program runs.
#include "cli/python_verbs.h"

namespace gpumemprof::cli {

VerbAction prepare_estimate(CLI::App& verb) { return python_verb(verb, "SCRIPT"); }

}  // namespace gpumemprof::cli
