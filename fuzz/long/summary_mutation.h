// Summaries of ranks, changed as text and as JSON, for their fast reader.
#pragma once

#include <string>

#include "verbs/choices.h"

namespace gpumemprof::fuzz {

// `path`: where it is written. Ends the process where a promise is broken.
void try_changed_summary(std::string summary, const std::string& path, Choices& choices);

}  // namespace gpumemprof::fuzz
