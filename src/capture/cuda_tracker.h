// torch's CUDA caching allocator, followed without torch's headers: its trace tracker calls us with
// every event.
//
// The tracker is a virtual function that no two minor versions have in the same place. Where it is
// comes from scanning the exported table of a sister class at run time; for the versions we know
// the known place must be the same, and the function found must be the allocator's own. Nothing is
// believed before a snapshot was seen as an event (see Join). There is no way to detach: the
// callback stays for the life of the process and does nothing while no emitter is set.
#pragma once

#include <cstdint>
#include <vector>

#include "base/result.h"
#include "capture/capture.h"
#include "capture/emitter.h"

namespace gpumemprof::capture {

// Call with CUDA initialised: before that torch ignores it silently. Does nothing the second time.
Status attach_cuda_tracker(TorchVersionNumber version);
void set_cuda_emitter(Emitter* emitter);

// The snapshots torch told of since forget_snapshots(): one for each device, in the order of
// devices.
struct SeenSnapshot {
  std::uint64_t address = 0;
  std::uint64_t active_bytes = 0;
  std::uint64_t ticks = 0;
};
void forget_snapshots();
std::vector<SeenSnapshot> seen_snapshots();

}  // namespace gpumemprof::capture
