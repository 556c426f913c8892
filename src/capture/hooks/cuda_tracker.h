// torch's CUDA caching allocator, followed without torch's headers: its trace tracker calls us with
// every event.
//
// The tracker is attached through a virtual function whose vtable slot differs between minor
// versions. We find the slot by scanning the exported vtable of a sister class at run time; for
// versions we know, it must match the known slot, and the function found must be the allocator's
// own. Nothing is trusted until a snapshot was seen as an event (begin_join()). There is no way to
// detach: the callback stays for the life of the process and does nothing while no emitter is set.
#pragma once

#include <cstdint>
#include <vector>

#include "base/result.h"
#include "capture/capture.h"
#include "capture/stream/emitter.h"

namespace gpumemprof::capture {

// Whether it could be attached; changes nothing.
Status check_cuda_tracker(TorchVersionNumber version);
// Call with CUDA initialised: before that torch silently ignores it. Does nothing the second time.
Status attach_cuda_tracker(TorchVersionNumber version);
void set_cuda_emitter(Emitter* emitter);

// The snapshots torch reported since forget_snapshots(): one for each device, in device order.
struct SeenSnapshot {
  std::uint64_t address = 0;
  std::uint64_t active_bytes = 0;
  std::uint64_t ticks = 0;
};
void forget_snapshots();
std::vector<SeenSnapshot> seen_snapshots();
// Whether there was any since then. If there never was, torch has ignored the tracker, and the next
// attach_cuda_tracker() tries again.
bool was_tracker_heard();

}  // namespace gpumemprof::capture
