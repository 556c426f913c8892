// Changes to a snapshot that leave it a snapshot: what a cut, damaged, forged or merely unusual
// recording looks like.
#pragma once

#include "verbs/choices.h"
#include "verbs/python_value.h"

namespace gpumemprof::fuzz {

void mutate_snapshot(PythonValue& snapshot, Choices& choices);

}  // namespace gpumemprof::fuzz
