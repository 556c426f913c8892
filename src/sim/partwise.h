// PartwiseSimulation: a what-if run (simulate.h) of requests that come part by part.
#pragma once

#include <memory>
#include <optional>

#include "base/error.h"
#include "sim/simulate.h"

namespace gpumemprof::sim {

class SimulatedRequests;

class PartwiseSimulation {
 public:
  // `requests` must outlive it; it is filled and emptied between the calls.
  PartwiseSimulation(const RequestColumns& requests, const SimulationOptions& options);
  PartwiseSimulation(const PartwiseSimulation&) = delete;
  PartwiseSimulation& operator=(const PartwiseSimulation&) = delete;
  ~PartwiseSimulation();

  // Every row that there is now; nothing once it has stopped.
  void serve();
  [[nodiscard]] Result<SimulationResult> finish();

 private:
  SimulationOptions options_;
  const RequestColumns& requests_;
  std::unique_ptr<SimulatedRequests> run_;
  bool is_checked_ = false;
  std::optional<Error> error_;
};

}  // namespace gpumemprof::sim
