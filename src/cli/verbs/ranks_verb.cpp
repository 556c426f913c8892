// `gpumemprof ranks`: listed here, but handled by the Python package, which reads the summaries.
#include "cli/python_verbs.h"

namespace gpumemprof::cli {

VerbAction prepare_ranks(CLI::App& verb) { return python_verb(verb, "FOLDER"); }

}  // namespace gpumemprof::cli
