// The last block: how the recording ended.
#pragma once

#include <cstdint>

#include "event/recording.h"
#include "trace/bytes_io.h"

namespace gpumemprof::trace {

// `events`: rows in the file, over all devices.
void encode_end(OutBytes& out, const Ending& ending, std::uint64_t events);
bool decode_end(InBytes in, Ending& ending, std::uint64_t& events);

}  // namespace gpumemprof::trace
