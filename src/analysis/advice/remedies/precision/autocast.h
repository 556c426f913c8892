// Autocast to half precision: shared by the remedies for its two types.
//
// Autocast runs matrix products in half precision, norms and losses in fp32, and lets the rest
// follow its inputs. So the precision of every forward result is tracked from operation to
// operation: the input of one is the main result of the one before. Where an operation's input has
// the other precision a copy is made; it is saved for backward instead of the input, which is then
// freed when the program drops it.
#pragma once

#include <optional>
#include <string>

#include "analysis/advice/advised_run.h"
#include "analysis/advice/remedies/rewrite.h"

namespace gpumemprof {

void use_autocast(Rewrite& rewrite);

// A sentence if the run uses autocast already.
std::optional<std::string> autocast_obstacle(const AdvisedRun& run);

}  // namespace gpumemprof
