// What a recording says about the process that made it.
#pragma once

#include <string>

namespace gpumemprof::api {

// Empty: not known.
std::string own_command();
std::string own_host();
std::string own_process_id();

}  // namespace gpumemprof::api
