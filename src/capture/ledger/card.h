// The whole card, as NVML reports it: what all processes and what this process use. Each object is
// for one thread at a time.
//
// The library comes with the driver and is looked up at run time; without it there are no samples.
#pragma once

#include <string>
#include <vector>

#include "event/recording.h"

namespace gpumemprof::capture {

// Bits of DeviceSample::libraries.
std::uint8_t libraries_in_use();

class Cards {
 public:
  // uuid as in "GPU-1234…"; a card NVML does not know is left out.
  void watch(DeviceIndex device, const std::string& uuid);
  // One for each card; the caller fills in the time.
  [[nodiscard]] std::vector<DeviceSample> sample() const;

 private:
  struct Card {
    DeviceIndex device = 0;
    void* handle = nullptr;
  };

  bool open();

  bool was_opened_ = false;
  bool is_open_ = false;
  std::vector<Card> cards_;
};

}  // namespace gpumemprof::capture
