#include "analysis/oom/streamed_history.h"

#include <algorithm>

#include "analysis/whatif/recorded_device.h"
#include "analysis/whatif/recorded_limits.h"
#include "base/flat_map.h"
#include "sim/limit_finder.h"
#include "sim/search.h"
#include "sim/streamed.h"

namespace gpumemprof {
namespace {

// So many settings are tried in one reading. The first two include the one that most often helps.
constexpr std::size_t kFirstTrials = 2;
constexpr std::size_t kMoreTrials = 6;

}  // namespace

StreamedHistory::StreamedHistory(const Store& store, const Run& run, Deliver deliver)
    : store_(store), run_(run), deliver_(std::move(deliver)) {
  for (std::uint32_t row = 0; row < store.pool_count(); ++row) pools_.push_back(store.pool(row));
  recorded_.pools = pools_;
  recorded_.start = {run.start->segments, run.start->first_block, run.start->blocks};
  if (run.start->segments.empty()) counters_ = recorded_counters(*run.replay);
  recorded_.counters = counters_;
}

bool StreamedHistory::can_read(const Store& store, const ListedState& start,
                               const DeviceReplay& replay) {
  const bool has_private =
      std::any_of(start.segments.begin(), start.segments.end(), [&](const SegmentState& segment) {
        return segment.pool != kNoPool && store.pool(segment.pool) != PoolId{};
      });
  return replay.exact_from_event == 0U && !has_private;
}

const std::optional<sim::InferredLimit>& StreamedHistory::inferred_limit() {
  if (is_limit_known_) return inferred_;
  is_limit_known_ = true;
  sim::LimitFinder finder(recorded_.start.segments, store_.settings());
  std::uint32_t number = 0;
  const Status read = deliver_([&](const EventColumns& events) {
    for (std::size_t row = 0; row < events.size(); ++row) finder.read(events, row, number++);
  });
  if (read) inferred_ = finder.found();
  return inferred_;
}

bool StreamedHistory::is_varied(StackId stack, std::uint64_t block_bytes, std::uint32_t event) {
  bool is_varied = false;
  std::uint32_t number = 0;
  FlatMap<std::uint32_t> live;  // addresses
  const auto read = [&](Action action, std::uint64_t address, std::uint64_t size_bytes,
                        StackId from) {
    if (action == Action::alloc && from == stack) {
      is_varied |= store_.settings().round_size(size_bytes) != block_bytes;
      live.insert_or_assign(address, number);
    } else if (action == Action::free_requested && live.find(address) != nullptr) {
      is_varied = true;
    }
  };
  const Status done = deliver_([&](const EventColumns& events) {
    for (std::size_t row = 0; row < events.size(); ++row, ++number) {
      if (number >= event || is_varied) continue;
      read(events.action[row], events.address[row], events.size_bytes[row], events.stack[row]);
    }
  });
  return is_varied || !done;
}

sim::VerifyOptions StreamedHistory::verify_options(TorchVersion version) const {
  sim::VerifyOptions options;
  options.settings = store_.settings();
  options.rules = sim::rules_for(version);
  return options;
}

std::optional<StreamedHistory::Proof> StreamedHistory::prove_under(
    TorchVersion version, const std::optional<sim::MemoryLimit>& limit) {
  Proof proof{version, {}, 0, false};
  if (limit) proof.limit = *limit;
  if (!limit) {
    if (const std::optional<sim::InferredLimit>& inferred = inferred_limit())
      proof.limit = inferred->limit;
  }
  sim::StreamedRun run(recorded_, verify_options(version), proof.limit);
  const Status read = deliver_([&](const EventColumns& events) { run.add(events); });
  if (!read) return std::nullopt;
  const Result<sim::StreamedRun::Outcome> outcome = run.finish();
  if (!outcome) return std::nullopt;
  proof.mismatches = mismatches_of(outcome.value().verification);
  proof.is_exact = outcome.value().verification.is_exact();
  return proof;
}

// In the order, and with the choice, of a run in memory (whatif.cpp).
const StreamedHistory::Proof* StreamedHistory::prove() {
  if (is_proof_tried_) return proof_ ? &*proof_ : nullptr;
  is_proof_tried_ = true;
  const std::vector<std::optional<sim::MemoryLimit>> limits = recorded_limits(store_, run_.device);
  for (const TorchVersion version : recorded_versions(store_)) {
    std::optional<Proof> best = prove_under(version, limits.front());
    for (std::size_t index = 1; best && best->mismatches > 0 && index < limits.size(); ++index) {
      const std::optional<Proof> other = prove_under(version, limits[index]);
      if (other && other->mismatches < best->mismatches) best = other;
    }
    if (!best) {
      proof_.reset();
      return nullptr;
    }
    if (!proof_ || best->mismatches < proof_->mismatches) proof_ = best;
    if (proof_->mismatches == 0) break;
  }
  return proof_ ? &*proof_ : nullptr;
}

bool StreamedHistory::try_all(const Proof& proof, std::vector<Trial>& trials, std::size_t first,
                              std::size_t count, const sim::MemoryLimit& limit) {
  sim::StreamedRun run(recorded_, verify_options(proof.version), proof.limit);
  for (std::size_t index = first; index < first + count; ++index) {
    sim::SimulationOptions options;
    options.settings = trials[index].conf.settings;
    options.rules = sim::rules_for(proof.version);
    options.limit = limit;
    options.stops_at_first_oom = true;
    run.add_trial(options);
  }
  const Status read = deliver_([&](const EventColumns& events) { run.add(events); });
  if (!read) return false;
  const Result<sim::StreamedRun::Outcome> outcome = run.finish();
  if (!outcome) return false;
  for (std::size_t index = 0; index < count; ++index) {
    const Result<sim::SimulationResult>& result = outcome.value().trials[index];
    if (result) trials[first + index].result = result.value();
  }
  return true;
}

JoinedRuns::Answer StreamedHistory::survivors(std::uint32_t event, const sim::MemoryLimit& limit) {
  JoinedRuns::Answer answer;
  const Proof* proof = run_.events > kMostSimulatedEvents ? nullptr : prove();
  if (proof == nullptr) return answer;
  answer.is_tried = true;
  answer.is_exact = proof->is_exact;
  std::vector<Trial> trials;
  for (AllocConf& conf : sim::sensible_settings(proof->version)) {
    if (conf.settings != store_.settings()) trials.push_back({std::move(conf), std::nullopt});
  }
  std::size_t tried = 0;
  while (tried < trials.size()) {
    const std::size_t count =
        std::min(tried == 0 ? kFirstTrials : kMoreTrials, trials.size() - tried);
    if (!try_all(*proof, trials, tried, count, limit)) return {};
    for (std::size_t index = tried; index < tried + count; ++index) {
      const Trial& trial = trials[index];
      if (!trial.result) continue;
      const std::uint32_t failed = trial.result->first_oom_event;
      if (failed != kNoEvent && failed <= event) continue;
      if (answer.surviving_confs.empty()) answer.reserved_bytes = trial.result->peak_reserved_bytes;
      answer.surviving_confs.push_back(to_string(trial.conf));
      if (run_.events > JoinedRuns::kEventsForAll) return answer;
    }
    tried += count;
  }
  return answer;
}

}  // namespace gpumemprof
