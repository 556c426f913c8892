#include "analysis/whatif/whatif.h"

#include <algorithm>

#include "analysis/overview/overview.h"
#include "analysis/whatif/recorded_device.h"
#include "analysis/whatif/recorded_limits.h"

namespace gpumemprof {
namespace {

// When most was reserved, and the request that a segment was reserved for has been served.
Moment moment_of_most_reserved(const DeviceRecord& record, const DeviceReplay& replay) {
  std::uint32_t event = replay.peak_reserved_event;
  if (event == kNoEvent) return Moment::start();
  const auto action = [&](std::uint32_t at) { return record.events.action[at]; };
  const auto is_of_pool = [](Action one) {
    return one == Action::segment_alloc || one == Action::segment_map;
  };
  std::uint32_t next = event;
  while (next < record.events.size() && is_of_pool(action(next))) ++next;
  if (next < record.events.size() && action(next) == Action::alloc) event = next;
  return Moment::after(event);
}

class DeviceStudy {
 public:
  DeviceStudy(const Store& store, const DeviceRecord& record, const DeviceReplay& replay,
              const WhatIfOptions& options)
      : store_(store), options_(options), recorded_(store, record, replay) {
    study_.device = record.device;
    study_.name = store.device_name(record.device);
    study_.first_event = recorded_.run().first_event;
    study_.lead_in = record.lead_in;
    study_.recorded_conf = recorded_conf();
    study_.pins = find_pins(record, store, moment_of_most_reserved(record, replay));
    limits_ = recorded_limits(store, record.device);
    if (options.recorded_limit_bytes)
      limits_ = {sim::MemoryLimit{*options.recorded_limit_bytes, sim::kNoLimit}};
  }

  Result<DeviceWhatIf> run() {
    if (const Status verified = verify(); !verified) return verified.error();
    if (const Status added = add_recorded_run(); !added) return added.error();
    for (const std::string& conf : confs_to_try()) {
      if (const Status added = add_runs(conf); !added) return added.error();
    }
    if (options_.searches) {
      if (const Status searched = search(); !searched) return searched.error();
    }
    return std::move(study_);
  }

  Status verify() {
    std::vector<TorchVersion> versions = recorded_versions(store_);
    if (options_.version && options_.alloc_confs.empty() && options_.memory_limits.empty())
      versions = {*options_.version};
    study_.is_version_inferred = versions.size() > 1;
    bool has_one = false;
    for (const TorchVersion version : versions) {
      Result<sim::Verification> verified = verify_as(version);
      if (!verified) return verified.error();
      if (!has_one || mismatches_of(verified.value()) < mismatches_of(study_.verified)) {
        study_.verified = std::move(verified).value();
        study_.version = version;
      }
      has_one = true;
      if (mismatches_of(study_.verified) == 0) break;
    }
    return Done{};
  }

  [[nodiscard]] sim::SimulationOptions simulation(const AllocConf& conf,
                                                  std::uint64_t limit_bytes) const {
    sim::SimulationOptions options;
    options.settings = conf.settings;
    options.rules = sim::rules_for(options_.version.value_or(study_.version));
    options.limit = study_.verified.limit;
    if (limit_bytes != sim::kNoLimit) options.limit = {limit_bytes, sim::kNoLimit};
    return options;
  }

  [[nodiscard]] Result<AllocConf> parse(const std::string& conf) const {
    return parse_alloc_conf(conf, options_.version.value_or(study_.version));
  }
  [[nodiscard]] const DeviceWhatIf& study() const { return study_; }
  [[nodiscard]] DeviceWhatIf take() { return std::move(study_); }

 private:
  [[nodiscard]] Result<sim::Verification> verify_under(
      TorchVersion version, const std::optional<sim::MemoryLimit>& limit) const {
    sim::VerifyOptions options;
    options.settings = store_.settings();
    options.rules = sim::rules_for(version);
    options.limit = limit;
    return sim::verify(recorded_.run(), options);
  }

  // Under the first limit that fits the recording, or the one that fits it best.
  [[nodiscard]] Result<sim::Verification> verify_as(TorchVersion version) const {
    Result<sim::Verification> best = verify_under(version, limits_.front());
    for (std::size_t index = 1; index < limits_.size(); ++index) {
      if (!best || mismatches_of(best.value()) == 0) break;
      Result<sim::Verification> other = verify_under(version, limits_[index]);
      if (other && mismatches_of(other.value()) < mismatches_of(best.value()))
        best = std::move(other);
    }
    return best;
  }

  [[nodiscard]] std::string recorded_conf() const {
    for (const auto& [key, value] : store_.origin().settings) {
      if (key.ends_with("ALLOC_CONF")) return value;
    }
    return store_.facts().process().settings;
  }

  // A limit alone is tried with the recorded settings.
  [[nodiscard]] std::vector<std::string> confs_to_try() const {
    if (!options_.alloc_confs.empty()) return options_.alloc_confs;
    if (!options_.memory_limits.empty() || options_.version) return {study_.recorded_conf};
    return {};
  }

  // The proof has already run it, at the recorded addresses: ties between equal blocks, which are
  // broken by address, came out as recorded, and near a limit everything after such a tie may
  // depend on it.
  Status add_recorded_run() {
    AllocConf conf;
    conf.settings = store_.settings();
    const std::uint64_t limit = study_.verified.limit.allowed_bytes;
    sim::SimulationOptions options = simulation(conf, sim::kNoLimit);
    options.rules = sim::rules_for(study_.version);
    if (const Status added = add_run(study_.recorded_conf, limit, options); !added) return added;
    WhatIfRun& run = study_.runs.back();
    run.is_recorded = true;
    run.result.counters = study_.verified.counters;
    run.result.peak_allocated_bytes = study_.verified.counters.allocated_bytes.peak();
    run.result.peak_reserved_bytes = study_.verified.counters.reserved_bytes.peak();
    run.result.first_oom_event = first_recorded_oom();
    return Done{};
  }

  [[nodiscard]] std::uint32_t first_recorded_oom() const {
    const EventColumns& events = *recorded_.run().events;
    for (std::uint32_t event = study_.first_event; event < events.size(); ++event) {
      if (events.action[event] == Action::oom) return event;
    }
    return kNoEvent;
  }

  Status add_runs(const std::string& text) {
    const Result<AllocConf> conf = parse(text);
    if (!conf) return conf.error();
    if (!conf.value().is_native_backend) {
      return Error{ErrorCode::usage, "the backend cudaMallocAsync has no pool to simulate", "",
                   "leave backend out of --alloc-conf"};
    }
    std::vector<std::uint64_t> limits = options_.memory_limits;
    if (limits.empty()) limits = {study_.verified.limit.allowed_bytes};
    for (const std::uint64_t limit : limits) {
      if (const Status added =
              add_run(to_string(conf.value()), limit, simulation(conf.value(), limit));
          !added) {
        return added;
      }
    }
    return Done{};
  }

  Status add_run(const std::string& conf, std::uint64_t limit,
                 const sim::SimulationOptions& options) {
    Result<sim::SimulationResult> result = sim::simulate(study_.verified.requests, options);
    if (!result) return result.error();
    WhatIfRun run{conf, limit, std::move(result).value(), std::nullopt, false};
    if (options_.finds_min_memory || options_.searches) {
      const std::optional<sim::MinMemory> least =
          sim::find_min_memory(study_.verified.requests, options);
      if (least) run.min_memory_bytes = least->limit_bytes;
    }
    study_.runs.push_back(std::move(run));
    return Done{};
  }

  Status search() {
    sim::SearchOptions options;
    options.version = options_.version.value_or(study_.version);
    options.limit = study_.verified.limit;
    if (!options_.memory_limits.empty())
      options.limit = {options_.memory_limits.front(), sim::kNoLimit};
    options.progress = options_.progress;
    Result<std::vector<sim::Candidate>> found =
        sim::search(study_.verified.requests, sim::sensible_settings(options.version), options);
    if (!found) return found.error();
    for (sim::Candidate& candidate : found.value()) {
      WhatIfRun run{to_string(candidate.conf), options.limit.allowed_bytes, candidate.result,
                    std::nullopt, false};
      if (candidate.min_memory) run.min_memory_bytes = candidate.min_memory->limit_bytes;
      study_.runs.push_back(std::move(run));
    }
    study_.is_ranked = true;
    return Done{};
  }

  const Store& store_;
  const WhatIfOptions& options_;
  RecordedDevice recorded_;
  std::vector<std::optional<sim::MemoryLimit>> limits_;  // to be tried; none: inferred
  DeviceWhatIf study_;
};

Error no_history(const Store& store, const std::string& path, const std::string& device) {
  return {ErrorCode::bad_input, device + " has no allocations to simulate", path,
          store.origin().kind == "torch_snapshot"
              ? "call torch.cuda.memory._record_memory_history() before the run to record them"
              : "record a program that allocates on a GPU: gpumemprof run SCRIPT"};
}

}  // namespace

std::optional<Error> why_not_simulated(const Store& store, const std::string& path) {
  if (store.facts().has_pool()) return std::nullopt;
  return Error{ErrorCode::bad_input,
               "it holds CPU tensors, which PyTorch's caching allocator does not place, so there "
               "is nothing to simulate",
               path, "record the run on a GPU, or see gpumemprof report"};
}

Result<WhatIf> make_whatif(const Store& store, const std::vector<DeviceReplay>& replays,
                           std::string path, const WhatIfOptions& options) {
  WhatIf whatif;
  whatif.path = std::move(path);
  if (const Status known = check_device(store, whatif.path, options.device); !known)
    return known.error();
  for (std::size_t index = 0; index < store.devices().size(); ++index) {
    const DeviceRecord& record = *store.devices()[index];
    const bool is_asked = options.device == record.device;
    if ((options.device && !is_asked) || record.device == kHostDevice) continue;
    if (!replays[index].has_history || replays[index].counters.allocations == 0) {
      if (is_asked || store.devices().size() == 1)
        return no_history(store, whatif.path, store.device_name(record.device));
      continue;
    }
    Result<DeviceWhatIf> device = DeviceStudy(store, record, replays[index], options).run();
    if (!device) return device.error();
    whatif.devices.push_back(std::move(device).value());
  }
  if (whatif.devices.empty()) return no_history(store, whatif.path, "it");
  return whatif;
}

Result<VerifiedRun> verify_run(const Store& store, const DeviceRecord& record,
                               const DeviceReplay& replay) {
  const WhatIfOptions options;
  DeviceStudy study(store, record, replay, options);
  if (const Status verified = study.verify(); !verified) return verified.error();
  DeviceWhatIf whatif = study.take();
  return VerifiedRun{whatif.version, std::move(whatif.verified)};
}

Result<SimulatedDevice> simulated_run(const Store& store, const DeviceRecord& record,
                                      const DeviceReplay& replay, const WhatIfOptions& options) {
  DeviceStudy study(store, record, replay, options);
  if (const Status verified = study.verify(); !verified) return verified.error();
  const std::string text =
      options.alloc_confs.empty() ? study.study().recorded_conf : options.alloc_confs.front();
  const Result<AllocConf> conf = study.parse(text);
  if (!conf) return conf.error();
  const std::uint64_t limit =
      options.memory_limits.empty() ? sim::kNoLimit : options.memory_limits.front();
  Result<sim::SimulatedRun> run = sim::simulate_events(
      study.study().verified.requests, study.simulation(conf.value(), limit), record.events);
  if (!run) return run.error();
  return SimulatedDevice{std::move(run).value(), conf.value().settings};
}

}  // namespace gpumemprof
