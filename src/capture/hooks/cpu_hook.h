// CPU tensors: libc10's own calls of posix_memalign and free, redirected to our hook.
//
// libc10 allocates tensor memory with posix_memalign (torch 2.4 to 2.14) and frees everything with
// free. The drain ignores the free of memory that we did not see allocated: it is not a tensor's,
// or was allocated before. Other libraries' calls are left alone.
#pragma once

#include "base/result.h"
#include "capture/stream/emitter.h"

namespace gpumemprof::capture {

// Does nothing the second time. Fails if libc10 is not loaded or allocates in another way.
Status attach_cpu_hook();
// Where events go; nullptr: nowhere.
void set_cpu_emitter(Emitter* emitter);

}  // namespace gpumemprof::capture
