// Everything gpumemprof can do with a file, as its verbs, its viewer and its tables do it, in one
// process.
#pragma once

#include <string>

#include "verbs/choices.h"

namespace gpumemprof::fuzz {

// `folder` is for the verbs' output. Ends the process where an invariant is broken; a rejected file
// is fine.
void try_every_verb(const std::string& path, const std::string& folder, Choices& choices);

}  // namespace gpumemprof::fuzz
