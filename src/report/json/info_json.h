// What a recording is, as JSON; unknown is null.
#pragma once

#include <string>

#include "analysis/info/recording_info.h"

namespace gpumemprof {

std::string info_json(const RecordingInfo& info);

}  // namespace gpumemprof
