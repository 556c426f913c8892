// Parts of a long run, read at the checkpoints of its index instead of by passes over all of it.
#pragma once

#include <map>
#include <memory>
#include <string>

#include "event/excerpt.h"
#include "index/run_index.h"
#include "session/recording.h"
#include "windows/part_taker.h"

namespace gpumemprof {

// What an excerpt knows of its run, whose first event was at that time.
KnownPart known_part(const Excerpt& excerpt, std::uint32_t run_events, std::int64_t first_time_ns);

// Labels name the inputs of a run's first steps, say; what is allocated at the same places later is
// of the same kind. Null: the run has no labels, or nothing of it can be read.
std::shared_ptr<const LabelledPlaces> places_at_start(const RunIndex& index, DeviceIndex device);

// The stretch of a device between checkpoints that holds events [from, to) and some around them, as
// a recording with the phases and sources of the run. `first_time_ns`: of the run.
Result<std::shared_ptr<const Recording>> open_stretch(const RunIndex& index, DeviceIndex device,
                                                      std::uint32_t from, std::uint32_t to,
                                                      std::int64_t first_time_ns);

// These parts of the run as one recording, as if they had been taken in a pass over all of it.
Result<std::shared_ptr<const Recording>> open_parts(
    const RunIndex& index, const std::string& path,
    const std::map<DeviceIndex, ExcerptRange>& ranges);

}  // namespace gpumemprof
