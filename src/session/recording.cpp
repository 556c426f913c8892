#include "session/recording.h"

#include <algorithm>
#include <new>

#include "analysis/code/shown_file.h"
#include "analysis/code/whence.h"
#include "session/excerpt/renumber.h"
#include "store/settle.h"
#include "store/store_source.h"
#include "symbols/resolving_sink.h"
#include "trace/writer.h"

namespace gpumemprof {
namespace {

// Live recordings carry torch's own count of retries, which no event reports.
void take_counted_retries(const DeviceFacts& facts, DeviceReplay& replay) {
  if (!facts.alloc_retries) return;
  replay.counters.alloc_retries = facts.alloc_retries;
  replay.counters.are_retries_counted = true;
}

void begin_excerpt(const ExcerptRange& range, DeviceRecord& record) {
  const auto events = static_cast<std::uint32_t>(record.events.size());
  record.lead_in = std::min(range.lead_in, events);
  record.starts_expandable = range.is_expandable;
  record.run_start_ns = range.run_start_ns;
  // Older than the run: a time would be missing in every list.
  for (std::uint32_t row = 0; row < record.lead_in; ++row) {
    std::int64_t& time_ns = record.events.time_ns[row];
    if (time_ns == kUnknownTime) time_ns = range.run_start_ns;
  }
}

// What the whole run shows, in place of what was inferred from the part alone.
void take_known_labels(const KnownPart& known, DeviceRecord& record) {
  AllocationLabels& labels = record.labels;
  const auto take = [&](std::size_t row, const KnownPart::Allocation& allocation) {
    labels.source[row] = allocation.source;
    labels.flags[row] = allocation.flags;
    labels.has_recorded |= (allocation.flags & AllocationLabels::kMeasured) != 0;
    if (allocation.name.is_none() && labels.name.empty()) return;
    if (labels.name.empty()) labels.name.resize(labels.source.size(), StringId());
    labels.name[row] = allocation.name;
  };
  std::size_t listed = 0;
  for (std::size_t row = 0; row < record.allocations.size(); ++row) {
    const std::uint32_t birth = record.allocations.alloc_event[row];
    if (birth == kNoEvent) {
      if (listed < known.at_start.size()) take(row, known.at_start[listed++]);
      continue;
    }
    const auto found =
        std::ranges::lower_bound(known.allocations, birth, {}, &KnownPart::Allocation::event);
    if (found != known.allocations.end() && found->event == birth) take(row, *found);
  }
}

}  // namespace

Result<std::shared_ptr<const Recording>> Recording::open(const std::string& path,
                                                         const OpenOptions& options) {
  return load(path, [&](EventSink& sink) -> Status {
    const Result<std::unique_ptr<EventSource>> source = open_source(path, options);
    if (!source) return source.error();
    ResolvingSink resolving(sink);
    return source.value()->deliver(resolving);
  });
}

Result<std::shared_ptr<const Recording>> Recording::from(EventSource& source,
                                                         const std::string& name) {
  return load(name, [&](EventSink& sink) { return source.deliver(sink); });
}

Result<std::shared_ptr<const Recording>> Recording::from_excerpt(
    EventSource& source, const std::string& name,
    const std::function<std::vector<KnownPart>()>& known) {
  return load(name, [&](EventSink& sink) { return source.deliver(sink); }, known);
}

const KnownPart* Recording::known_part(DeviceIndex device) const {
  const auto found = std::ranges::find(known_, device, &KnownPart::device);
  return found == known_.end() ? nullptr : &*found;
}

Result<std::shared_ptr<const Recording>> Recording::load(
    const std::string& name, const std::function<Status(EventSink&)>& deliver,
    const std::function<std::vector<KnownPart>()>& known) {
  try {
    const std::shared_ptr<Recording> recording(new Recording());
    recording->path_ = name;
    OwnStacksFirst stacks(recording->store_);
    const Status delivered = deliver(stacks);
    if (!delivered) return delivered.error();
    if (known) recording->take_known(known());
    recording->replay();
    return std::shared_ptr<const Recording>(recording);
  } catch (const std::bad_alloc&) {
    return Error{ErrorCode::environment, "this machine does not have enough memory to open it",
                 name, "open it on a machine with more memory"};
  }
}

// Facts about the whole run are none about a part of it.
void Recording::take_known(std::vector<KnownPart> known) {
  known_ = std::move(known);
  Origin origin = store_.origin();
  if (origin.ending) origin.ending->has_counts = false;
  if (origin.ending) origin.ending->devices.clear();
  origin.chapters.clear();
  origin.steps.clear();
  std::erase_if(origin.facts, [](const auto& fact) {
    return fact.first.starts_with("device ") && (fact.first.ends_with(" num_alloc_retries") ||
                                                 fact.first.ends_with(" peak_allocated_bytes") ||
                                                 fact.first.ends_with(" peak_reserved_bytes"));
  });
  for (const KnownPart& part : known_)
    origin.facts.emplace_back(
        "device " + std::to_string(part.device) + " " + std::string(kExcerptFact),
        excerpt_text(part.range));
  store_.set_origin(origin);
}

void Recording::replay() {
  store_.set_program_folder(program_folder(store_));
  for (const auto& record : store_.devices()) {
    settle_positions(*record);
    const DeviceFacts& facts = store_.facts().device(record->device);
    if (facts.excerpt) begin_excerpt(*facts.excerpt, *record);
    replays_.push_back(replay_device(*record, store_.settings(), store_.origin()));
    take_counted_retries(facts, replays_.back());
    const KnownPart* known = known_part(record->device);
    phases_.push_back(known == nullptr ? find_phases(store_, *record) : known->spans);
    // The first step that a file of a part marks is not the first of the run.
    if (known == nullptr && facts.excerpt && facts.excerpt->first_step > 0) {
      for (PhaseSpan& span : phases_.back())
        if (span.step > 0) span.step += facts.excerpt->first_step - 1;
    }
    record->phases = phases_.back();
    KnownLabels start;
    if (known != nullptr && known->places != nullptr) start = {{}, known->places.get(), true};
    record->labels =
        known == nullptr || known->kind == RunKind::unknown
            ? label_allocations(store_, *record, phases_.back())
            : label_allocations(store_, *record, phases_.back(),
                                {known->kind, {}, start.places == nullptr ? nullptr : &start});
    if (known != nullptr) take_known_labels(*known, *record);
  }
}

Result<Overview> Recording::overview(const OverviewOptions& asked) const {
  OverviewOptions options = asked;
  std::uint64_t lead_ins = 0;
  for (const auto& record : store_.devices()) {
    const std::optional<ExcerptRange>& range = store_.facts().device(record->device).excerpt;
    if (!range || record->lead_in == 0) continue;
    lead_ins += record->lead_in;
    if (asked.at.kind != AskedMoment::Kind::event) continue;
    if (options.device && *options.device != record->device) continue;
    if (asked.at.event < range->from || asked.at.event >= range->to)
      return no_such_event(path_, store_.device_name(record->device), asked.at.event,
                           range->to - range->from);
    options.at.event = range->row_of(asked.at.event);
  }
  Result<Overview> made = make_overview(store_, replays_, phases_, path_, options);
  if (!made) return made;
  made.value().completeness = find_completeness(store_);
  made.value().events -= std::min(made.value().events, lead_ins);
  for (DeviceOverview& device : made.value().devices) {
    if (const auto& range = store_.facts().device(device.device).excerpt) renumber(*range, device);
  }
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
  if (!origin.chapters.empty())
    return Error{ErrorCode::bad_input, cut->reason, path,
                 "the other chapters are reported; for the rest, copy the folder again or record "
                 "again"};
  return Error{
      ErrorCode::bad_input, cut->reason, path + ", byte " + std::to_string(cut->byte_offset),
      "what came before it is reported; for the rest, copy the file again or record again"};
}

}  // namespace gpumemprof
