// `--at EVENT|step:N|peak|end`: the moment that a verb shows.
#pragma once

#include <string>

#include "analysis/overview/overview.h"
#include "base/result.h"

namespace gpumemprof::cli {

Result<AskedMoment> parse_moment(const std::string& text);

}  // namespace gpumemprof::cli
