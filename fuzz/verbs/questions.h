// Every question of the viewer's page, and the page as a file.
#pragma once

#include "session/view.h"
#include "verbs/choices.h"

namespace gpumemprof::fuzz {

void ask_everything(const View& view, Choices& choices);

}  // namespace gpumemprof::fuzz
