// What the viewer tries remedies on: all of a recording, or the steps around the peak of a long
// one, as `advise` does.
#pragma once

#include <memory>

#include "session/advice/device_advice.h"
#include "session/long_view/long_run.h"

namespace gpumemprof {

// On the steps around the peak of a run that is too long for memory.
std::unique_ptr<DeviceAdvice> advice_on_peak(const std::shared_ptr<const LongRun>& run,
                                             const LongDevice& device);
// On all of it, or on as much as `advise` reads of a long recording.
std::unique_ptr<DeviceAdvice> advice_on(const std::shared_ptr<const Recording>& whole,
                                        DeviceIndex device);

}  // namespace gpumemprof
