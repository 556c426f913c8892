// `gpumemprof export`: listed here, but handled by the Python package, which calls PyArrow.
#include "cli/python_verbs.h"

namespace gpumemprof::cli {

VerbAction prepare_export(CLI::App& verb) { return python_verb(verb, "--to parquet OUT FILE"); }

}  // namespace gpumemprof::cli
