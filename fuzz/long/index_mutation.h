// The index beside a long recording: made as a report makes it, of it or of another recording, and
// then changed beneath its checksums.
#pragma once

#include <string>

#include "verbs/choices.h"

namespace gpumemprof::fuzz {

// Makes a recording long enough that its index is used: with a block that readers skip.
void make_long(const std::string& file);

// `indexed`: what the index is made of; `recording`: what it lies beside, and claims to be of.
// Where none can be made, there is none.
void write_changed_index(const std::string& indexed, const std::string& recording,
                         Choices& choices);

}  // namespace gpumemprof::fuzz
