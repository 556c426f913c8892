#include "report/perfetto/memory_trace.h"

#include <fmt/core.h>

#include <algorithm>
#include <limits>
#include <optional>
#include <set>

#include "analysis/code/whence.h"
#include "analysis/leaks/fill_table.h"
#include "analysis/peak/live_set.h"
#include "analysis/tags/tags.h"
#include "base/printable.h"

namespace gpumemprof {
namespace {

constexpr std::uint64_t kProcessTrack = 1;
constexpr std::uint64_t kTracksOfDevice = 64;

// The tracks of a device, in the order in which they are shown.
enum class DeviceTrack : std::uint8_t {
  group,
  steps,
  phases,
  annotations,
  missing,
  allocated,
  reserved,
  allocations,
  rounding,
  first_source,
};

std::int32_t pid_of(const Store& store) {
  const std::optional<std::uint64_t> pid = store.facts().process().pid;
  return pid ? static_cast<std::int32_t>(*pid & 0x7fffffffU) : 1;  // 0 would be the idle task
}

std::string lost_text(const LostEvents& lost) {
  if (lost.count == LostEvents::kUnknownCount) return "not recorded: recording was paused";
  if (lost.is_of_chapters) return "not recorded in detail: chapters were removed";
  return std::to_string(lost.count) + " events were lost";
}

}  // namespace

// One device: its tracks, and where its walk is.
class MemoryTrace::DeviceTrace {
 public:
  DeviceTrace(PerfettoWriter& writer, const Store& store, const TracedDevice& device,
              std::int64_t base_ns, std::uint64_t number)
      : writer_(writer),
        store_(store),
        device_(device),
        base_ns_(base_ns),
        first_track_(kTracksOfDevice * (number + 1)) {}

  [[nodiscard]] std::uint64_t track(DeviceTrack which) const {
    return first_track_ + static_cast<std::uint64_t>(which);
  }
  [[nodiscard]] std::uint64_t track_of(MemorySource source) const {
    return track(DeviceTrack::first_source) + static_cast<std::uint64_t>(source);
  }
  [[nodiscard]] DeviceIndex device() const { return device_.device; }
  [[nodiscard]] std::string name() const { return store_.device_name(device_.device); }

  void write_tracks(const std::string& description) {
    using Kind = PerfettoWriter::TrackKind;
    const std::uint64_t group = track(DeviceTrack::group);
    writer_.add_track({group, kProcessTrack, Kind::group, name() + " memory", description,
                       static_cast<std::int32_t>(first_track_)});
    const auto add = [&](DeviceTrack which, Kind kind, const std::string& text) {
      writer_.add_track(
          {track(which), group, kind, name() + " " + text, "", static_cast<std::int32_t>(which)});
    };
    add(DeviceTrack::steps, Kind::slices, "steps");
    add(DeviceTrack::phases, Kind::slices, "phases");
    add(DeviceTrack::annotations, Kind::slices, "annotations");
    if (!device_.lost_events.empty()) add(DeviceTrack::missing, Kind::slices, "missing events");
    add(DeviceTrack::allocated, Kind::counter, "allocated");
    if (device_.has_pool) add(DeviceTrack::reserved, Kind::counter, "reserved");
    add(DeviceTrack::allocations, Kind::slices, "allocations");
    std::int32_t rank = static_cast<std::int32_t>(DeviceTrack::first_source);
    for (const MemorySourceInfo& info : kMemorySourceTable)
      writer_.add_track({track_of(info.source), group, Kind::counter,
                         name() + " " + std::string(info.name), "", rank++});
    writer_.add_track(
        {track(DeviceTrack::rounding), group, Kind::counter, name() + " rounding", "", rank});
  }

  void add(const WalkedPart& part, const std::vector<PhaseSpan>& spans) {
    find_times(part);
    find_collections_that_freed(part);
    part_ = &part;
    walk_spans(part, spans);
    walk_.pass(part, *this);
    part_ = nullptr;
  }

  // Whether Python's garbage collector, marked at this time, freed memory of this device.
  [[nodiscard]] bool freed_in_collection(std::int64_t time_ns) const {
    const bool is_after_all = time_ns > last_event_ns_;
    return is_after_all ? ends_with_free_ : collections_that_freed_.contains(time_ns);
  }

  // For the walk:
  void started(const LiveMemory& live) {
    const std::int64_t time_ns = times_.empty() ? 0 : times_.front();
    writer_.add_counter(track(DeviceTrack::allocated), time_ns, live.allocated_bytes);
    if (device_.has_pool)
      writer_.add_counter(track(DeviceTrack::reserved), time_ns, live.reserved_bytes);
    for (const MemorySource source : kMemorySources)
      writer_.add_counter(track_of(source), time_ns, live.sources[source]);
    rounding_ = live.sources.rounding;
    writer_.add_counter(track(DeviceTrack::rounding), time_ns, rounding_);
  }
  void changed(std::uint32_t event, std::uint32_t row, bool is_birth, const LiveMemory& live) {
    if (is_birth) {
      write_birth(event, row, live);
    } else {
      write_counter(DeviceTrack::allocated, event, live.allocated_bytes);
      const MemorySource source = source_of(part_->record, row);
      writer_.add_counter(track_of(source), time_of(event), live.sources[source]);
      if (live.sources.rounding != rounding_)
        write_counter(DeviceTrack::rounding, event, live.sources.rounding);
      rounding_ = live.sources.rounding;
    }
  }
  void reserved(std::uint32_t event, const LiveMemory& live) {
    if (device_.has_pool) write_counter(DeviceTrack::reserved, event, live.reserved_bytes);
  }
  void passed(std::uint32_t event, const LiveMemory& /*live*/) {
    if (part_->record.events.action[event] != Action::oom) return;
    const std::string wanted = std::to_string(part_->record.events.size_bytes[event]);
    writer_.add_instant(track(DeviceTrack::allocations), time_of(event), "out of memory",
                        {{"wanted_bytes", wanted}});
  }

  void finish() {
    if (step_ != 0) writer_.end_slice(track(DeviceTrack::steps), last_ns_);
    if (has_phase_) writer_.end_slice(track(DeviceTrack::phases), last_ns_);
    for (const LostEvents& lost : device_.lost_events) {
      const std::int64_t first_ns =
          lost.first_time_ns == kUnknownTime ? device_.first_time_ns : lost.first_time_ns;
      const std::int64_t from = first_ns == kUnknownTime ? last_ns_ : first_ns - base_ns_;
      const std::int64_t to =
          lost.last_time_ns == kUnknownTime ? from : lost.last_time_ns - base_ns_;
      writer_.begin_slice(track(DeviceTrack::missing), from, lost_text(lost));
      writer_.end_slice(track(DeviceTrack::missing), std::max(from, to));
    }
  }

 private:
  static MemorySource source_of(const DeviceRecord& record, std::uint32_t row) {
    const AllocationLabels& labels = record.labels;
    return row < labels.source.size() ? labels.source[row] : MemorySource::unknown;
  }

  [[nodiscard]] std::int64_t time_of(std::uint32_t event) const {
    return times_[event - part_->first_event];
  }

  // A mark follows each collection, so what it freed is right before: as in find_collections().
  void find_collections_that_freed(const WalkedPart& part) {
    if (part.events == 0) return;
    const auto& events = part.record.events;
    const auto begin = events.time_ns.begin() + static_cast<std::ptrdiff_t>(part.first_event);
    const auto end = begin + static_cast<std::ptrdiff_t>(part.events);
    for (const std::int64_t time_ns : collection_times(store_, device_.device)) {
      if (time_ns <= last_event_ns_ || time_ns > *(end - 1)) continue;
      const auto after = std::lower_bound(begin, end, time_ns);
      const std::size_t before = part.first_event + static_cast<std::size_t>(after - begin) - 1;
      if (after == begin ? ends_with_free_ : events.action[before] != Action::alloc)
        collections_that_freed_.insert(time_ns);
    }
    last_event_ns_ = *(end - 1);
    ends_with_free_ = events.action[part.first_event + part.events - 1] != Action::alloc;
  }

  void write_counter(DeviceTrack which, std::uint32_t event, std::uint64_t value) {
    writer_.add_counter(track(which), time_of(event), value);
  }

  // Never decreasing; an event without a time has that of the event before.
  void find_times(const WalkedPart& part) {
    times_.resize(part.events);
    const Column<std::int64_t>& times = part.record.events.time_ns;
    for (std::size_t event = 0; event < part.events; ++event) {
      const std::int64_t time = times[part.first_event + event];
      if (time != kUnknownTime) last_ns_ = std::max(last_ns_, time - base_ns_);
      times_[event] = last_ns_;
    }
  }

  void walk_spans(const WalkedPart& part, const std::vector<PhaseSpan>& spans) {
    if (part.events == 0) return;
    const auto end = static_cast<std::uint32_t>(part.first_event + part.events);
    for (std::size_t index = 0; index < spans.size(); ++index) {
      const bool is_over =
          index + 1 < spans.size() && spans[index + 1].first_event <= part.first_event;
      if (is_over || spans[index].first_event >= end) continue;
      const auto first =
          std::max(spans[index].first_event, static_cast<std::uint32_t>(part.first_event));
      enter(spans[index], time_of(first));
    }
  }

  void enter(const PhaseSpan& span, std::int64_t time_ns) {
    if (has_phase_ && span.phase == phase_ && span.step == step_) return;
    if (has_phase_) writer_.end_slice(track(DeviceTrack::phases), time_ns);
    if (span.step != step_) {
      if (step_ != 0) writer_.end_slice(track(DeviceTrack::steps), time_ns);
      if (span.step != 0)
        writer_.begin_slice(track(DeviceTrack::steps), time_ns,
                            "step " + std::to_string(span.step));
    }
    writer_.begin_slice(track(DeviceTrack::phases), time_ns, phase_name(span.phase));
    has_phase_ = true;
    phase_ = span.phase;
    step_ = span.step;
  }

  void write_birth(std::uint32_t event, std::uint32_t row, const LiveMemory& live) {
    const DeviceRecord& record = part_->record;
    const MemorySource source = source_of(record, row);
    const AllocationLabels& labels = record.labels;
    const bool is_measured = row < labels.source.size() && labels.is_measured(row);
    const Whence from = whence(record, row);
    allocation_.track = track(DeviceTrack::allocations);
    allocation_.time_ns = time_of(event);
    allocation_.source = memory_source_name(source);
    allocation_.provenance = is_measured ? "measured" : "inferred";
    allocation_.bytes = record.allocations.size_bytes[row];
    allocation_.stack = from.stack;
    allocation_.is_backward = from.is_backward;
    allocation_.name = row < labels.name.size() ? store_.text(labels.name[row]) : "";
    allocation_.tag = store_.text(tag_of(record, row));
    allocation_.counters.assign({{track(DeviceTrack::allocated), live.allocated_bytes},
                                 {track_of(source), live.sources[source]}});
    if (live.sources.rounding != rounding_)
      allocation_.counters.emplace_back(track(DeviceTrack::rounding), live.sources.rounding);
    rounding_ = live.sources.rounding;
    writer_.add_allocation(allocation_);
  }

  PerfettoWriter& writer_;
  const Store& store_;
  TracedDevice device_;
  std::int64_t base_ns_;
  std::uint64_t first_track_;
  MemoryWalk walk_;
  const WalkedPart* part_ = nullptr;
  std::vector<std::int64_t> times_;
  std::int64_t last_ns_ = 0;
  std::set<std::int64_t> collections_that_freed_;  // by the time of their mark
  std::int64_t last_event_ns_ = std::numeric_limits<std::int64_t>::min();
  bool ends_with_free_ = false;
  std::uint32_t step_ = 0;
  Phase phase_ = Phase::other;
  bool has_phase_ = false;
  std::uint64_t rounding_ = 0;
  PerfettoWriter::Allocation allocation_;
};

MemoryTrace::MemoryTrace(std::unique_ptr<FileSink> file, const Store& store,
                         std::vector<AboutLine> about, std::int64_t base_ns)
    : store_(store),
      about_(std::move(about)),
      base_ns_(base_ns),
      pid_(pid_of(store)),
      writer_(std::move(file), store) {
  const ProcessFacts& process = store.facts().process();
  const std::string command = process.command.empty() ? "recorded program" : process.command;
  const std::string rank = process.rank ? fmt::format("rank {}: ", *process.rank) : std::string();
  writer_.add_process(kProcessTrack, pid_, rank + command);
}

MemoryTrace::~MemoryTrace() = default;

void MemoryTrace::add_device(const TracedDevice& device) {
  const auto [place, is_new] = devices_.try_emplace(device.device);
  GMP_CHECK(is_new);
  place->second =
      std::make_unique<DeviceTrace>(writer_, store_, device, base_ns_, devices_.size() - 1);
  std::string description;
  for (const std::string& line : about_texts(about_)) description += line + "\n";
  place->second->write_tracks(description);
}

// What the trace says about itself, where its first event is.
void MemoryTrace::write_beginning(std::int64_t time_ns) {
  if (has_begun_ || time_ns == kUnknownTime) return;
  has_begun_ = true;
  writer_.add_clock(time_ns - base_ns_, time_ns);
  std::vector<PerfettoWriter::Note> notes;
  notes.reserve(about_.size() + 1);
  for (const auto& [name, value] : about_) notes.push_back({name, value});
  notes.push_back({"zero_of_time_unix_ns", std::to_string(base_ns_)});
  writer_.add_instant(devices_.begin()->second->track(DeviceTrack::group), time_ns - base_ns_,
                      "about this trace", notes);
}

void MemoryTrace::add(const WalkedPart& part, const std::vector<PhaseSpan>& spans) {
  const auto device = devices_.find(part.record.device);
  if (device == devices_.end() || part.events == 0) return;
  write_beginning(part.record.events.time_ns[part.first_event]);
  device->second->add(part, spans);
}

void MemoryTrace::write_annotations() {
  // The names of those that are open, the innermost last.
  std::map<DeviceIndex, std::vector<StringId>> open;
  for (const Annotation& annotation : store_.annotations()) {
    const auto device = devices_.find(annotation.device);
    if (device == devices_.end() || annotation.time_ns == kUnknownTime) continue;
    const std::uint64_t track = device->second->track(DeviceTrack::annotations);
    const std::int64_t time_ns = annotation.time_ns - base_ns_;
    std::vector<StringId>& names = open[annotation.device];
    const auto begin = [&](StringId name) {
      writer_.begin_slice(track, time_ns, printable(store_.text(name)));
    };
    if (annotation.stage == Annotation::Stage::start) {
      const bool is_collection = store_.text(annotation.name) == kCollection;
      if (is_collection && !device->second->freed_in_collection(annotation.time_ns)) continue;
      begin(annotation.name);
      names.push_back(annotation.name);
      continue;
    }
    // Slices of a track must nest. Those that began inside and go on are cut in two.
    constexpr std::ptrdiff_t kMostCut = 32;
    const auto inner = std::find(names.rbegin(), names.rend(), annotation.name);
    const std::ptrdiff_t cut = inner - names.rbegin();
    if (inner == names.rend() || cut > kMostCut) continue;
    for (std::ptrdiff_t slice = 0; slice <= cut; ++slice) writer_.end_slice(track, time_ns);
    names.erase(std::next(inner).base());
    for (auto name = names.end() - cut; name != names.end(); ++name) begin(*name);
  }
}

Status MemoryTrace::finish(const StackProfile& peak) {
  for (auto& [device, trace] : devices_) trace->finish();
  write_annotations();
  if (!has_begun_) writer_.add_clock(0, std::nullopt);
  std::vector<PerfettoWriter::HeapProfile> heaps;
  for (const ProfiledMoment& moment : peak.moments) {
    const auto device = devices_.find(moment.device);
    if (device == devices_.end()) continue;
    PerfettoWriter::HeapProfile heap;
    heap.name = device->second->name() + " at the peak";
    heap.time_ns = moment.time_ns == kUnknownTime ? 0 : moment.time_ns - base_ns_;
    for (const StackSample& sample : peak.samples) {
      if (sample.device != moment.device) continue;
      heap.samples.push_back({sample.stack, sample.is_backward, sample.alloc_objects,
                              sample.alloc_bytes, sample.inuse_objects, sample.inuse_bytes});
    }
    heaps.push_back(std::move(heap));
  }
  writer_.add_heap_profiles(pid_, heaps);
  return writer_.finish();
}

}  // namespace gpumemprof
