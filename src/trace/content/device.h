// Devices in a file are numbered starting at kHostDevice.
#pragma once

#include <limits>

#include "event/event.h"
#include "trace/bytes_io.h"

namespace gpumemprof::trace {

inline DeviceIndex take_device(InBytes& in) {
  const std::int64_t device = in.signed_varint();
  if (device >= kHostDevice && device <= std::numeric_limits<DeviceIndex>::max()) {
    return static_cast<DeviceIndex>(device);
  }
  in.fail();
  return 0;
}

}  // namespace gpumemprof::trace
