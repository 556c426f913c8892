// Texts that a recording may hold: names decide what an operation, a module and a phase are.
#pragma once

#include <string>

#include "verbs/choices.h"

namespace gpumemprof::fuzz {

// Makes it longer, or one that means something.
void change_text(std::string& text, Choices& choices);

}  // namespace gpumemprof::fuzz
