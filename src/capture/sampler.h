// Sampler: a thread that looks at a device's ledger now and then, and misses no peak in between.
//
// Every look closes one interval of a scope and opens the next, so a spike between two looks is
// kept with its height and time. The thread never takes the GIL, so the program it watches does not
// wait for it. Samples are kept here until they are asked for; bounded, the newest kept. A forked
// child has no such thread: there the sampler is off.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "capture/scope.h"
#include "event/recording.h"

namespace gpumemprof::capture {

struct SamplerOptions {
  std::uint8_t slot = 0;  // of a device that is being counted, until the sampler is gone
  std::int64_t interval_ns = 100'000'000;
  bool with_resident = true;
  std::string card_uuid;  // also ask NVML about this card once a second; empty: do not
  std::size_t most_samples = 100'000;
};

struct Sample {
  ScopeFigures figures;
  std::optional<DeviceSample> card;  // none: nobody asked this time
};

struct TakenSamples {
  std::vector<Sample> samples;  // oldest first
  std::uint64_t dropped = 0;    // older ones that did not fit, since the last time
};

class Sampler {
 public:
  explicit Sampler(SamplerOptions options);
  Sampler(const Sampler&) = delete;
  Sampler& operator=(const Sampler&) = delete;
  ~Sampler();

  // What was seen since the last time.
  TakenSamples take();
  // A last look, and the end. Waits for the thread; doing it twice does no harm.
  void stop();

 private:
  struct State;
  [[nodiscard]] bool is_inherited() const;

  std::unique_ptr<State> state_;
};

}  // namespace gpumemprof::capture
