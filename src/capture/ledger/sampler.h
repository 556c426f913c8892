// Sampler: a thread that reads a device's ledger at intervals, and misses no peak in between.
//
// Every sample closes one interval of a scope and opens the next, so a spike between two samples is
// kept with its height and time. The thread never takes the GIL, so the program it watches does not
// wait for it. Samples are kept here until taken; bounded, the newest kept. A forked child has no
// such thread: there the sampler is off.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "capture/ledger/scope.h"
#include "event/recording.h"

namespace gpumemprof::capture {

struct SamplerOptions {
  DeviceSlot slot = 0;  // of a device that is being counted for as long as the sampler exists
  std::int64_t interval_ns = 100'000'000;
  bool with_resident = true;
  std::string card_uuid;  // also query NVML about this card once a second; empty: do not
  std::size_t most_samples = 100'000;
};

struct Sample {
  ScopeFigures figures;
  std::optional<DeviceSample> card;  // none: not queried this time
};

struct TakenSamples {
  std::vector<Sample> samples;  // oldest first
  std::uint64_t dropped = 0;    // older ones that did not fit, since the last take()
};

class Sampler {
 public:
  explicit Sampler(SamplerOptions options);
  Sampler(const Sampler&) = delete;
  Sampler& operator=(const Sampler&) = delete;
  ~Sampler();

  // What was sampled since the last call.
  TakenSamples take();
  // Takes a last sample and ends. Waits for the thread; safe to call twice.
  void stop();

 private:
  struct State;
  [[nodiscard]] bool is_inherited() const;

  std::unique_ptr<State> state_;
};

}  // namespace gpumemprof::capture
