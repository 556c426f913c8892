// Makes the index of a long recording, for whoever asks about it without wanting a report.
#pragma once

#include <string>

#include "session/formats.h"

namespace gpumemprof {

// Reads the recording twice and leaves the index beside it. False if there is none afterwards: the
// recording must be read whole, or changed meanwhile, or nothing can be written there.
bool make_index(const std::string& path, const OpenOptions& options);

}  // namespace gpumemprof
