// torch's own totals of CUDA memory, reported to us with every block that is allocated or freed.
//
// libc10_cuda calls c10::reportMemoryUsageToProfiler under the device's lock with the block's true
// size and the totals after it, whether or not a profiler listens; its calls are redirected to our
// hook, which passes them on to torch. A trace entry would not do: it reports what was requested,
// and the size of the block also depends on what it was split from.
#pragma once

#include "base/result.h"

namespace gpumemprof::capture {

// Does nothing the second time; the redirection stays for the life of the process. Fails if
// libc10_cuda is not loaded or does not make the call.
Status attach_cuda_report();
// Called at each report, with torch's lock of the device held; nullptr: nobody.
void set_report_listener(void (*listener)());

}  // namespace gpumemprof::capture
