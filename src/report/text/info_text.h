// What a recording is, as text for a terminal.
#pragma once

#include <string>

#include "analysis/info/recording_info.h"
#include "report/text/overview/overview_text.h"

namespace gpumemprof {

std::string info_text(const RecordingInfo& info, const TextStyle& style);

}  // namespace gpumemprof
