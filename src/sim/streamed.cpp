#include "sim/streamed.h"

#include <utility>

namespace gpumemprof::sim {
namespace {

RecordedRun with_events(RecordedRun run, const EventColumns& events) {
  run.events = &events;
  run.pool_of_event = {};
  return run;
}

}  // namespace

StreamedRun::StreamedRun(const RecordedRun& run, const VerifyOptions& options,
                         const MemoryLimit& limit)
    : follower_(with_events(run, events_), options, limit) {
  follower_.begin_stream();
  if (Status status = follower_.adopt_start(); !status) error_ = status.error();
}

void StreamedRun::add_trial(const SimulationOptions& options) {
  trials_.push_back(std::make_unique<PartwiseSimulation>(follower_.requests(), options));
}

void StreamedRun::add(const EventColumns& events) {
  if (error_) return;
  events_.append(events, 0, events.size());
  follower_.follow_more();
  serve();
  const std::uint32_t gone = follower_.forget_rows();
  EventColumns rest;
  rest.append(events_, gone, events_.size() - gone);
  events_.clear();
  events_.append(rest, 0, rest.size());
}

void StreamedRun::serve() {
  for (const std::unique_ptr<PartwiseSimulation>& trial : trials_) trial->serve();
  follower_.forget_requests();
}

Result<StreamedRun::Outcome> StreamedRun::finish() {
  if (error_) return *error_;
  follower_.follow();
  serve();
  follower_.compare_end();
  Outcome outcome;
  for (const std::unique_ptr<PartwiseSimulation>& trial : trials_)
    outcome.trials.push_back(trial->finish());
  outcome.verification = std::move(follower_).take_result();
  return outcome;
}

}  // namespace gpumemprof::sim
