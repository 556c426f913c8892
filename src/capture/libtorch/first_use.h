// The moment when a program first uses the memory of a CUDA device.
//
// torch ignores a tracker that is attached before it has initialised CUDA, and does not say when it
// has. The first sign is libc10_cuda's call of cudaMalloc for a first segment, before any block
// exists; where segments are mapped instead (expandable segments), it is the report of the first
// block. Both calls are redirected to a hook for the life of the process; it costs one load while
// nobody waits.
#pragma once

#include "base/result.h"

namespace gpumemprof::capture {

// Calls `on_use` from now on at each sign of use, on the thread that allocates, with torch's lock
// of the device held, until stop_waiting_for_use(). `on_use` must not wait for a thread that may
// call torch.
Status wait_for_use(void (*on_use)());
void stop_waiting_for_use();

}  // namespace gpumemprof::capture
