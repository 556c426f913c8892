// A device that is known but has no event: by what was live at the start, by a mark, labels, a
// sample of the card or lost events, at any position.
#pragma once

#include "store/store.h"
#include "verbs/choices.h"

namespace gpumemprof::fuzz {

void add_idle_device(Store& store, Choices& choices);

}  // namespace gpumemprof::fuzz
