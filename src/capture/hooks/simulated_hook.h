// Events of a device that does not exist: what a simulated allocator does is recorded like the
// events of a real one, with the stack of the thread that reports it.
#pragma once

#include "capture/capture.h"
#include "capture/stream/emitter.h"

namespace gpumemprof::capture {

// Where events go; nullptr: nowhere.
void set_simulated_emitter(Emitter* emitter);
void emit_simulated(const SimulatedEvent& event);

}  // namespace gpumemprof::capture
