#include "session/recording.h"

#include <array>
#include <charconv>
#include <cstdlib>
#include <filesystem>
#include <new>
#include <system_error>

#include "analysis/code/shown_file.h"
#include "base/byte_source.h"
#include "base/bytes.h"
#include "ingest/torch_snapshot.h"
#include "store/settle.h"
#include "store/store_source.h"
#include "trace/reader.h"
#include "trace/writer.h"

namespace gpumemprof {
namespace {

// A file may use no more memory than recordings of its size do, unless the user allows it.
Result<std::uint64_t> allowed_memory() {
  const char* text = std::getenv("GPUMEMPROF_MAX_MEMORY");
  if (text == nullptr || text[0] == '\0') return std::uint64_t{0};
  const std::optional<std::uint64_t> bytes = parse_bytes(text);
  if (bytes) return *bytes;
  return Error{ErrorCode::usage,
               "GPUMEMPROF_MAX_MEMORY takes a size such as 8GiB, not '" + std::string(text) + "'",
               "", "try GPUMEMPROF_MAX_MEMORY=8GiB"};
}

// Live recordings carry torch's own count of retries, which no event reports.
void take_counted_retries(const Origin& origin, DeviceIndex device, DeviceReplay& replay) {
  const std::string name = "device " + std::to_string(device) + " num_alloc_retries";
  for (const auto& [fact, value] : origin.facts) {
    std::uint64_t count = 0;
    const char* end = value.data() + value.size();
    if (fact != name || std::from_chars(value.data(), end, count).ptr != end) continue;
    replay.counters.alloc_retries = count;
    replay.counters.are_retries_counted = true;
  }
}

// A file's type follows from its first bytes, not from its name.
Result<std::unique_ptr<EventSource>> open_source(const std::string& path,
                                                 const OpenOptions& options) {
  const Result<std::uint64_t> allowed = allowed_memory();
  if (!allowed) return allowed.error();
  std::array<std::byte, 8> start{};
  std::size_t got = 0;
  // Bytes read from a pipe are gone; only snapshots are read from pipes.
  if (std::error_code ignored; std::filesystem::is_regular_file(path, ignored)) {
    Result<std::unique_ptr<FileSource>> file = FileSource::open(path);
    if (!file) return file.error();
    const Result<std::size_t> read = file.value()->read(start);
    if (!read) return read.error();
    got = read.value();
  }
  if (looks_like_trace(std::span(start).first(got))) {
    Result<std::unique_ptr<TraceReader>> trace = TraceReader::open(path, options.progress);
    if (!trace) return trace.error();
    trace.value()->allow_memory(allowed.value());
    return std::unique_ptr<EventSource>(std::move(trace).value());
  }
  Result<std::unique_ptr<TorchSnapshot>> snapshot = TorchSnapshot::open(path, options.progress);
  if (!snapshot) return snapshot.error();
  snapshot.value()->allow_memory(allowed.value());
  return std::unique_ptr<EventSource>(std::move(snapshot).value());
}

}  // namespace

Result<std::shared_ptr<const Recording>> Recording::open(const std::string& path,
                                                         const OpenOptions& options) {
  try {
    Result<std::unique_ptr<EventSource>> source = open_source(path, options);
    if (!source) return source.error();
    const std::shared_ptr<Recording> recording(new Recording());
    recording->path_ = path;
    Status delivered = source.value()->deliver(recording->store_);
    if (!delivered) return delivered.error();
    source.value().reset();
    recording->store_.set_program_folder(program_folder(recording->store_));
    for (const auto& record : recording->store_.devices()) {
      settle_positions(*record);
      recording->replays_.push_back(
          replay_device(*record, recording->store_.settings(), recording->store_.origin()));
      take_counted_retries(recording->store_.origin(), record->device, recording->replays_.back());
      recording->phases_.push_back(find_phases(recording->store_, *record));
      record->labels = label_allocations(recording->store_, *record, recording->phases_.back());
    }
    return std::shared_ptr<const Recording>(recording);
  } catch (const std::bad_alloc&) {
    return Error{ErrorCode::environment, "this machine does not have enough memory to open it",
                 path, "open it on a machine with more memory"};
  }
}

Result<Overview> Recording::overview(const OverviewOptions& options) const {
  Result<Overview> made = make_overview(store_, replays_, phases_, path_, options);
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
  origin.kind = "simulated";
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

std::optional<Error> Recording::cut() const {
  const std::optional<CutPoint>& cut = store_.origin().cut;
  if (!cut) return std::nullopt;
  return Error{
      ErrorCode::bad_input, cut->reason, path_ + ", byte " + std::to_string(cut->byte_offset),
      "what came before it is reported; copy the file again, or dump it again, for the rest"};
}

}  // namespace gpumemprof
