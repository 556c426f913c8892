// Which frame of a stack is the user's own: the place a person can change.
#pragma once

#include <string_view>

#include "store/store.h"

namespace gpumemprof {

// Installed packages, the standard library, generated code and C++ frames.
bool is_library_file(std::string_view file);

// The innermost frame outside libraries as the stack that ends there; the stack itself where there
// is none.
StackId user_part(const Store& store, StackId stack);

}  // namespace gpumemprof
