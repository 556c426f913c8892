// CPU tensors: libc10's own calls of posix_memalign and free, led through us.
//
// libc10 takes tensor memory with posix_memalign (torch 2.4 to 2.14) and everything it lets go
// passes free; what we did not see allocated is none of ours, which the drain sorts out. Other
// libraries' calls are left alone.
#pragma once

#include "base/result.h"
#include "capture/emitter.h"

namespace gpumemprof::capture {

// Does nothing the second time. Fails where libc10 is not loaded or allocates in another way.
Status attach_cpu_hook();
// Where events go; nullptr: nowhere.
void set_cpu_emitter(Emitter* emitter);

}  // namespace gpumemprof::capture
