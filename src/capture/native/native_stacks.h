// Where the recorder gets its walker of native stacks: one for the process, created when it is
// first asked for and kept, since callbacks use it.
#pragma once

#include "base/result.h"
#include "capture/native/native_walker.h"

namespace gpumemprof::capture {

// Fails where native stacks cannot be walked.
Status check_native_stacks();
// nullptr there. `has_python`: stacks of Python are recorded too, so native ones end where Python's
// begin.
NativeWalker* native_walker(bool has_python);

}  // namespace gpumemprof::capture
