// A run as a folder of chapters, as its recorder would have written it, and what may become of such
// a folder: chapters that are missing, cut off, changed, foreign or under another number, and a
// summary that says something else.
#pragma once

#include <span>
#include <string>

#include "store/store.h"
#include "verbs/choices.h"
#include "verbs/trace_mutation.h"

namespace gpumemprof::fuzz {

// `folder` is replaced; it has one chapter at least. `foreign`: other files.
void write_changed_chapters(const Store& run, const std::string& folder,
                            std::span<const FileBytes> foreign, Choices& choices);

}  // namespace gpumemprof::fuzz
