// Which frame of a stack is user code: the place the user can change.
#pragma once

#include "analysis/code/torch_code.h"  // is_library_file
#include "store/store.h"

namespace gpumemprof {

// A snapshot also has native frames unless it was recorded with stacks="python".
bool is_python(const Store& store, FrameId frame);

// The innermost frame outside libraries, as the stack that ends there; the stack itself if there is
// none.
StackId user_part(const Store& store, StackId stack);

// The line of an allocation, as the stack that ends there: the innermost frame outside libraries,
// of C++ or Python; without one, the innermost Python frame; none if all frames are native.
StackId line_part(const Store& store, StackId stack);

// The innermost Python frame, as the stack that ends there; none if all frames are native.
StackId python_part(const Store& store, StackId stack);

}  // namespace gpumemprof
