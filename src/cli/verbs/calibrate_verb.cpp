// `gpumemprof calibrate`: listed here, but handled by the Python package, whose torch uses the GPU.
#include "cli/python_verbs.h"

namespace gpumemprof::cli {

VerbAction prepare_calibrate(CLI::App& verb) { return python_verb(verb, ""); }

}  // namespace gpumemprof::cli
