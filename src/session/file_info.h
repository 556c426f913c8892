// What a file is, from its first bytes and its size.
#pragma once

#include <string>

#include "analysis/info/recording_info.h"
#include "base/result.h"

namespace gpumemprof {

Result<FileInfo> look_at_file(const std::string& path);

}  // namespace gpumemprof
