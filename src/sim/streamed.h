// StreamedRun: a recorded run that comes part by part, checked against the simulator (verify.h) and
// simulated under other settings at the same time.
//
// Memory grows with what is live, and with the allocations that waited for another stream, not with
// the events.
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "base/result.h"
#include "event/event.h"
#include "sim/follower.h"
#include "sim/partwise.h"
#include "sim/verify.h"

namespace gpumemprof::sim {

class StreamedRun {
 public:
  // Of `run`, everything but the events, which must not be there and come later. What it views must
  // outlive this; so must the settings of `options`.
  StreamedRun(const RecordedRun& run, const VerifyOptions& options, const MemoryLimit& limit);
  StreamedRun(const StreamedRun&) = delete;
  StreamedRun& operator=(const StreamedRun&) = delete;

  // Before the first events: also simulates this.
  void add_trial(const SimulationOptions& options);
  void add(const EventColumns& events);

  struct Outcome {
    Verification verification;  // without requests
    std::vector<Result<SimulationResult>> trials;
  };
  [[nodiscard]] Result<Outcome> finish();

 private:
  void serve();

  EventColumns events_;  // that are still needed
  Follower follower_;
  std::optional<Error> error_;
  std::vector<std::unique_ptr<PartwiseSimulation>> trials_;
};

}  // namespace gpumemprof::sim
