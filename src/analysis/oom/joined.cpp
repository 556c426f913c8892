#include "analysis/oom/joined.h"

#include <algorithm>

#include "analysis/whatif/whatif.h"
#include "sim/search.h"

namespace gpumemprof {
namespace {

bool is_over(const SimulationDeadline& deadline) {
  return deadline && std::chrono::steady_clock::now() >= *deadline;
}

// The setting that most often helps comes first: there may be time for only one.
std::vector<AllocConf> likely_first(TorchVersion version) {
  std::vector<AllocConf> settings = sim::sensible_settings(version);
  std::stable_partition(settings.begin(), settings.end(),
                        [](const AllocConf& conf) { return conf.settings.expandable_segments; });
  return settings;
}

}  // namespace

JoinedRuns::Answer JoinedRuns::survivors(std::uint32_t event, const sim::MemoryLimit& limit) const {
  Answer answer;
  const bool is_known = replay_.exact_from_event && *replay_.exact_from_event <= event;
  if (!is_known || record_.events.size() > kMostSimulatedEvents) return answer;
  answer.is_late = is_over(deadline_);
  if (answer.is_late) return answer;
  const Result<VerifiedRun> verified = verify_run(store_, record_, replay_);
  if (!verified) return answer;
  answer.is_tried = true;
  answer.is_exact = verified.value().verification.is_exact();
  const std::vector<AllocConf> settings = deadline_
                                              ? likely_first(verified.value().version)
                                              : sim::sensible_settings(verified.value().version);
  for (const AllocConf& conf : settings) {
    if (conf.settings == store_.settings()) continue;
    if (is_over(deadline_)) break;
    sim::SimulationOptions options;
    options.settings = conf.settings;
    options.rules = sim::rules_for(verified.value().version);
    options.limit = limit;
    options.stops_at_first_oom = true;
    const Result<sim::SimulationResult> run =
        sim::simulate(verified.value().verification.requests, options);
    if (!run) continue;
    const std::uint32_t failed = run.value().first_oom_event;
    if (failed != kNoEvent && failed <= event) continue;
    if (answer.surviving_confs.empty()) answer.reserved_bytes = run.value().peak_reserved_bytes;
    answer.surviving_confs.push_back(to_string(conf));
    if (record_.events.size() > kEventsForAll) break;
  }
  return answer;
}

}  // namespace gpumemprof
