// gzip, in memory: for what is written inside other files, or sent.
#pragma once

#include <string>
#include <string_view>

namespace gpumemprof {

std::string gzipped(std::string_view bytes);

}  // namespace gpumemprof
