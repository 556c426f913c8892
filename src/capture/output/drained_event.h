// What the drain makes of the ring's records, and hands to every open recording.
#pragma once

#include <cstdint>

#include "capture/capture.h"
#include "capture/device_slot.h"
#include "capture/record.h"
#include "event/event.h"
#include "event/recording.h"

namespace gpumemprof::capture {

// An event as the drain interpreted it; ids are the stack mirror's.
struct DrainedEvent {
  Action action = Action::other;
  DeviceSlot device = 0;
  std::uint16_t tag = 0;
  bool is_inferred = false;  // not seen: another event shows that it must have happened
  // CPU memory: the newest recording that was open at its allocation. Later ones hold neither its
  // allocation nor its free.
  RecordingNumber newest_recording = 0;
  std::int64_t time_ns = 0;
  std::uint64_t address = 0;
  std::uint64_t size_bytes = 0;
  std::uint64_t stream = 0;
  PoolId pool;
  StackId stack;
  StackId native_stack;  // the same with native frames below it; none: there are none
  StackId forward_stack;
  std::uint32_t module = kNoModule;
};

// A run of events of one device that found the ring full.
struct LossRun {
  DeviceSlot device = 0;
  Epoch epoch = 0;
  EventCounts counts;
  std::int64_t first_time_ns = kUnknownTime;
  std::int64_t last_time_ns = kUnknownTime;
};

}  // namespace gpumemprof::capture
