// Commands that are part of the Python package, as the native command answers them: one sentence
// that says how to get them. The package handles them before the command line is parsed here. Of
// run, estimate, live, ranks, export and calibrate nothing is native.
#pragma once

#include <optional>
#include <string>

#include "base/error.h"
#include "cli/verb.h"

namespace gpumemprof::cli {

// `what` needs the package, in which it is typed as `command`.
Error needs_package(const std::string& what, const std::string& command);

// `advise --verify`, and `report` of a folder of ranks: parts of native verbs.
std::optional<Error> use_of_python(int argc, const char* const* argv);

}  // namespace gpumemprof::cli
