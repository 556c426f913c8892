// A profile as speedscope reads it (its file-format-schema.json): one profile for each device and
// moment, weights in bytes.
#pragma once

#include <string>
#include <vector>

#include "analysis/stack_profile/stack_profile.h"
#include "report/about/about.h"

namespace gpumemprof {

// For each of the profiles, what is in use at its moments; of the last one, also what was allocated
// up to there. The format has no place for remarks: what is missing is part of the file's name.
std::string speedscope_profile(const std::vector<StackProfile>& profiles, const Store& store,
                               const std::vector<AboutLine>& about);

}  // namespace gpumemprof
