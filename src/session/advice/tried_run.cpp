#include "session/advice/tried_run.h"

#include "session/excerpt/excerpt.h"

namespace gpumemprof {

std::unique_ptr<DeviceAdvice> advice_on_peak(const std::shared_ptr<const LongRun>& run,
                                             const LongDevice& device) {
  // With what is tried on them, they take about 600 bytes an event.
  constexpr std::uint32_t kMostTriedEvents = 1'000'000;
  const DeviceIndex index = device.overview().device;
  return std::make_unique<DeviceAdvice>(index, [run, index] {
    return open_peak(run->indexed_path(), run->path(), index, kMostTriedEvents);
  });
}

std::unique_ptr<DeviceAdvice> advice_on(const std::shared_ptr<const Recording>& whole,
                                        DeviceIndex device) {
  return std::make_unique<DeviceAdvice>(
      device, [whole, device]() -> Result<std::shared_ptr<const Recording>> {
        if (!is_long_recording(whole->path())) return whole;
        Result<std::shared_ptr<const Recording>> part =
            open_excerpt(whole->path(), {AskedPart::Kind::peak, 0, 0, device});
        if (part && part.value() == nullptr) return whole;
        return part;
      });
}

}  // namespace gpumemprof
