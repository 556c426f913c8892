#include "session/recording.h"

#include <new>

#include "analysis/code/shown_file.h"
#include "store/settle.h"
#include "store/store_source.h"
#include "trace/writer.h"

namespace gpumemprof {
namespace {

// Live recordings carry torch's own count of retries, which no event reports.
void take_counted_retries(const DeviceFacts& facts, DeviceReplay& replay) {
  if (!facts.alloc_retries) return;
  replay.counters.alloc_retries = facts.alloc_retries;
  replay.counters.are_retries_counted = true;
}

}  // namespace

Result<std::shared_ptr<const Recording>> Recording::open(const std::string& path,
                                                         const OpenOptions& options) {
  return load(path, [&](EventSink& sink) -> Status {
    const Result<std::unique_ptr<EventSource>> source = open_source(path, options);
    if (!source) return source.error();
    return source.value()->deliver(sink);
  });
}

Result<std::shared_ptr<const Recording>> Recording::from(EventSource& source,
                                                         const std::string& name) {
  return load(name, [&](EventSink& sink) { return source.deliver(sink); });
}

Result<std::shared_ptr<const Recording>> Recording::load(
    const std::string& name, const std::function<Status(EventSink&)>& deliver) {
  try {
    const std::shared_ptr<Recording> recording(new Recording());
    recording->path_ = name;
    const Status delivered = deliver(recording->store_);
    if (!delivered) return delivered.error();
    recording->replay();
    return std::shared_ptr<const Recording>(recording);
  } catch (const std::bad_alloc&) {
    return Error{ErrorCode::environment, "this machine does not have enough memory to open it",
                 name, "open it on a machine with more memory"};
  }
}

void Recording::replay() {
  store_.set_program_folder(program_folder(store_));
  for (const auto& record : store_.devices()) {
    settle_positions(*record);
    replays_.push_back(replay_device(*record, store_.settings(), store_.origin()));
    take_counted_retries(store_.facts().device(record->device), replays_.back());
    phases_.push_back(find_phases(store_, *record));
    record->labels = label_allocations(store_, *record, phases_.back());
  }
}

Result<Overview> Recording::overview(const OverviewOptions& options) const {
  Result<Overview> made = make_overview(store_, replays_, phases_, path_, options);
  if (made) made.value().completeness = find_completeness(store_);
  return made;
}

Result<Failure> Recording::explain(const FailureOptions& options) const {
  return explain_failure(store_, replays_, phases_, path_, options);
}

Result<LeaksReport> Recording::leaks(const LeaksOptions& options) const {
  Result<LeaksReport> made = find_leaks(store_, replays_, phases_, path_, options);
  if (made) made.value().completeness = find_completeness(store_);
  return made;
}

Result<WhatIf> Recording::whatif(const WhatIfOptions& options) const {
  if (std::optional<Error> reason = why_not_simulated(store_, path_)) return std::move(*reason);
  Result<WhatIf> made = make_whatif(store_, replays_, path_, options);
  if (made) made.value().completeness = find_completeness(store_);
  return made;
}

Result<Advice> Recording::advise(AdviceOptions options, const Recording* other) const {
  if (other != nullptr) options.other = OtherRun{&other->store_, &other->phases_};
  Result<Advice> made = gpumemprof::advise(store_, replays_, phases_, path_, options);
  if (made) made.value().completeness = find_completeness(store_);
  return made;
}

Status Recording::write_simulated(const WhatIfOptions& options, const std::string& path,
                                  bool overwrites) const {
  if (std::optional<Error> reason = why_not_simulated(store_, path_)) return std::move(*reason);
  StoreSource source(store_);
  AllocatorSettings settings = store_.settings();
  for (std::size_t index = 0; index < store_.devices().size(); ++index) {
    const DeviceRecord& record = *store_.devices()[index];
    if (!replays_[index].has_history || record.device == kHostDevice) continue;
    if (options.device && *options.device != record.device) continue;
    Result<SimulatedDevice> run = simulated_run(store_, record, replays_[index], options);
    if (!run) return run.error();
    settings = run.value().settings;
    source.replace_events(record.device, std::move(run.value().run.events));
  }
  Origin origin = store_.origin();
  origin.kind = kSimulatedRun;
  origin.has_segments = false;
  origin.has_start = true;
  origin.cut.reset();
  if (!options.alloc_confs.empty()) {
    origin.settings = {{"PYTORCH_CUDA_ALLOC_CONF", options.alloc_confs.front()}};
  }
  TraceOptions trace_options;
  trace_options.appears = FileSink::Appears::when_closed;
  if (overwrites) trace_options.existing = FileSink::Existing::replace;
  Result<std::unique_ptr<TraceWriter>> writer =
      TraceWriter::open(path, origin, settings, trace_options);
  if (!writer) return writer.error();
  source.set_origin(origin);
  source.set_settings(settings);
  Status delivered = source.deliver(*writer.value());
  if (!delivered) return delivered;
  return writer.value()->close("simulated");
}

std::optional<Error> cut_in(const Origin& origin, const std::string& path) {
  const std::optional<CutPoint>& cut = origin.cut;
  if (!cut) return std::nullopt;
  return Error{
      ErrorCode::bad_input, cut->reason, path + ", byte " + std::to_string(cut->byte_offset),
      "what came before it is reported; for the rest, copy the file again or record again"};
}

}  // namespace gpumemprof
