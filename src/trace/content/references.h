// Whether everything that is to be written refers to something defined: a row that was never added
// would make the rest of the file unreadable.
#pragma once

#include <cstddef>
#include <span>

#include "event/chapter.h"
#include "event/event.h"
#include "event/recording.h"
#include "trace/content/definitions.h"

namespace gpumemprof::trace {

// At least one event.
bool refers_to_known(const DefinitionTable& definitions, const EventColumns& events,
                     std::size_t first, std::size_t count);
bool refers_to_known(const DefinitionTable& definitions, const SegmentState& segment,
                     std::span<const BlockState> blocks);
bool refers_to_known(const DefinitionTable& definitions, const ChapterStart& start);

}  // namespace gpumemprof::trace
