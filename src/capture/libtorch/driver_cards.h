// The cards behind the CUDA devices of this process, as the driver describes them.
//
// The driver's library is there once torch has initialised CUDA; none of these calls creates a
// context.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "capture/capture.h"

namespace gpumemprof::capture {

struct DriverCard {
  DeviceIndex device = 0;
  std::string name;               // "NVIDIA H200"
  std::uint64_t total_bytes = 0;  // as torch reports it
  std::string uuid;               // "GPU-1234…"; empty: not known
};

// Of devices 0 to `count` - 1; those that the driver does not describe are left out.
std::vector<DriverCard> driver_cards(int count);

}  // namespace gpumemprof::capture
