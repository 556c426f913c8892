// A loaded library's own table of calls into other libraries (its GOT), and how to redirect one of
// them.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/result.h"

namespace gpumemprof::capture {

// Redirects every call of `symbol` made from inside `library` (a file name such as "libc10.so") to
// `target`. Returns how many entries were changed; 0 if the library is not loaded or does not call
// it.
int redirect_calls(const std::string& library, const std::string& symbol, void* target);
// The same for every library that is loaded now.
int redirect_all_calls(const std::string& symbol, void* target);
// Whether a library of this file name is loaded.
bool is_library_loaded(const std::string& library);
// How many libraries have been loaded so far, including those since unloaded.
std::uint64_t loaded_library_count();

}  // namespace gpumemprof::capture
