// Everything gpumemprof can do with a recording that is read in windows, through its index or
// chapter by chapter, and while it is written.
#pragma once

#include <string>

#include "verbs/choices.h"

namespace gpumemprof::fuzz {

// `path` may be short, too; `folder` is for the verbs' output. Ends the process where an invariant
// is broken.
void try_every_verb_in_windows(const std::string& path, const std::string& folder,
                               Choices& choices);

}  // namespace gpumemprof::fuzz
