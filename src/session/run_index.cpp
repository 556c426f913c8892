#include "session/run_index.h"

#include <algorithm>
#include <array>
#include <string_view>

#include "base/byte_source.h"
#include "base/file_sink.h"
#include "session/archive.h"
#include "trace/checksum.h"

namespace gpumemprof {

// Found by the types of their arguments, so in no unnamed namespace.
template <typename Archive>
void fields(Archive& archive, LiveGroup& group) {
  archive(group.stack, group.is_backward, group.bytes, group.blocks, group.requested_bytes,
          group.tags);
}
template <typename Archive>
void fields(Archive& archive, LiveLine& line) {
  archive(line.line, line.places, line.tags);
}
template <typename Archive>
void fields(Archive& archive, FreeMemory& memory) {
  archive(memory.reserved_bytes, memory.allocated_bytes, memory.waiting_bytes, memory.free_bytes,
          memory.whole_segment_bytes, memory.whole_segments, memory.hole_bytes, memory.holes,
          memory.small_pool_bytes, memory.private_pool_bytes, memory.largest_hole_bytes,
          memory.largest_free_bytes, memory.segments, memory.segments_in_use, memory.rounding_bytes,
          memory.streams);
}
template <typename Archive>
void fields(Archive& archive, ModuleNode& node) {
  archive(node.parent, node.name, node.frame, node.bytes, node.blocks, node.by_source,
          node.self_bytes);
}
template <typename Archive>
void fields(Archive& archive, DeviceSources& sources) {
  archive(sources.device, sources.peak_bytes, sources.peak_event, sources.kind, sources.peak_phase,
          sources.peak_step, sources.is_end_of_forward, sources.is_start_of_backward,
          sources.figures, sources.rounding, sources.buffer_bytes_at_peak, sources.has_labels,
          sources.has_stacks, sources.phases, sources.steps, sources.series.event,
          sources.series.bytes, sources.modules, sources.has_module_instances);
}
template <typename Archive>
void fields(Archive& archive, Growth& growth) {
  archive(growth.is_known, growth.is_growing, growth.steps, growth.since_step, growth.last_step,
          growth.grown_bytes, growth.bytes_per_step, growth.line, growth.lines);
}
template <typename Archive>
void fields(Archive& archive, CardUsage& usage) {
  archive(usage.device, usage.before_event, usage.time_ns, usage.total_bytes, usage.firmware_bytes,
          usage.used_bytes, usage.process_bytes, usage.other_processes_bytes, usage.driver_bytes,
          usage.free_bytes, usage.reserved_bytes, usage.outside_bytes, usage.outside_by_kind,
          usage.growth, usage.requested_bytes, usage.allocated_bytes, usage.pending_bytes,
          usage.cached_bytes, usage.split_bytes, usage.is_consistent);
}
template <typename Archive>
void fields(Archive& archive, OomReport& oom) {
  archive(oom.event, oom.wanted_bytes, oom.device_free_bytes, oom.largest_free_bytes, oom.memory,
          oom.stack, oom.cause, oom.contributing, oom.doubts, oom.remedy_doubts, oom.limit,
          oom.is_limit_stated, oom.card_bytes, oom.other_processes_bytes, oom.outside_bytes,
          oom.short_bytes, oom.hoarded_blocks, oom.largest_earlier_bytes, oom.grown_bytes,
          oom.surviving_confs, oom.surviving_reserved_bytes, oom.is_simulation_skipped,
          oom.is_need_known);
}
template <typename Archive>
void fields(Archive& archive, DeviceOverview& device) {
  archive(device.device, device.name, device.events, device.duration_ns, device.replay,
          device.peak_when, device.asked, device.asked_when, device.totals, device.live.groups,
          device.live.allocated_bytes, device.live.blocks, device.live_lines, device.memory,
          device.pins.segments, device.pins.lines, device.pins.shares, device.tags.tags,
          device.tags.largest, device.tags.named_bytes, device.tags.named_blocks,
          device.asked_sources, device.sources, device.growth, device.card_usage, device.ooms,
          device.oom_whens);
}
template <typename Archive>
void fields(Archive& archive, LostPeriod& period) {
  archive(period.device, period.from_event, period.to_event, period.from_ns, period.to_ns,
          period.events, period.allocations, period.frees, period.is_summarised);
}
template <typename Archive>
void fields(Archive& archive, Completeness& found) {
  archive(found.is_recording, found.is_closed, found.reason, found.problem, found.made, found.lost,
          found.recorded, found.least_lost, found.inferred_frees, found.was_paused,
          found.summarised, found.lost_periods, found.exact_until_ns, found.host_resident_bytes,
          found.host_available_bytes, found.host_total_bytes);
}
template <typename Archive>
void fields(Archive& archive, Overview& overview) {
  archive(overview.completeness, overview.events, overview.allocations, overview.frees,
          overview.devices);
}
template <typename Archive>
void fields(Archive& archive, CutPoint& cut) {
  archive(cut.byte_offset, cut.reason);
}
template <typename Archive>
void fields(Archive& archive, Ending& ending) {
  archive(ending.is_closed, ending.reason, ending.problem, ending.has_counts,
          ending.are_counts_exact, ending.devices);
}
template <typename Archive>
void fields(Archive& archive, Origin& origin) {
  archive(origin.kind, origin.device_type, origin.has_segments, origin.has_start, origin.has_traces,
          origin.cut, origin.ending, origin.settings, origin.facts);
}

// What overviews refer to.
struct IndexedDefinitions {
  Origin origin;
  AllocatorSettings settings;
  std::string program_folder;
  std::vector<std::string> strings;
  std::vector<Frame> frames;
  std::vector<StackId> callers;
  std::vector<FrameId> stack_frames;
  std::vector<std::uint64_t> streams;
};
template <typename Archive>
void fields(Archive& archive, IndexedDefinitions& definitions) {
  archive(definitions.origin, definitions.settings, definitions.program_folder, definitions.strings,
          definitions.frames, definitions.callers, definitions.stack_frames, definitions.streams);
}

namespace {

constexpr std::string_view kIndexMagic = "GMPIDX1\n";

IndexedDefinitions definitions_of(const Store& store) {
  IndexedDefinitions found;
  found.origin = store.origin();
  found.settings = store.settings();
  found.program_folder = store.program_folder();
  for (std::size_t row = 0; row < store.strings().size(); ++row)
    found.strings.emplace_back(store.text(StringId(row)));
  const auto copy = [](const auto& column, auto& into) {
    into.assign(column.begin(), column.end());
  };
  copy(store.frames(), found.frames);
  copy(store.stacks().callers(), found.callers);
  copy(store.stacks().frames(), found.stack_frames);
  for (std::uint32_t row = 0; row < store.stream_count(); ++row)
    found.streams.push_back(store.stream_handle(row));
  return found;
}

// False where an id refers to nothing.
bool restore(const IndexedDefinitions& definitions, Store& store) {
  const auto is_id = [](std::uint32_t id, std::size_t count) {
    return id == StringId::kNone || id < count;
  };
  store.set_origin(definitions.origin);
  store.set_settings(definitions.settings);
  store.set_program_folder(definitions.program_folder);
  for (const std::string& text : definitions.strings) store.add_string(text);
  if (store.strings().size() != definitions.strings.size()) return false;
  for (const Frame& frame : definitions.frames) {
    if (!is_id(frame.name.index, definitions.strings.size()) ||
        !is_id(frame.file.index, definitions.strings.size()))
      return false;
    store.add_frame(frame);
  }
  if (definitions.callers.size() != definitions.stack_frames.size()) return false;
  for (std::size_t row = 0; row < definitions.callers.size(); ++row) {
    const StackId caller = definitions.callers[row];
    if ((!caller.is_none() && caller.index >= row) ||
        definitions.stack_frames[row].index >= definitions.frames.size())
      return false;
    store.add_stack(caller, definitions.stack_frames[row]);
  }
  for (const std::uint64_t handle : definitions.streams) store.add_stream(handle);
  return true;
}

// A recording as far as its index must know it: another one has other bytes at one of its ends.
struct Identity {
  std::uint64_t size_bytes = 0;
  std::uint64_t first_checksum = 0;
  std::uint64_t last_checksum = 0;
  // Another build may store other structs, or find other things.
  std::uint64_t build = 0;
  bool operator==(const Identity&) const = default;
};

Result<std::uint64_t> checksum_at(FileSource& file, std::uint64_t offset) {
  constexpr std::size_t kChecked = std::size_t{256} << 10U;
  std::vector<std::byte> bytes(kChecked);
  file.move_to(offset);
  std::size_t have = 0;
  while (have < bytes.size()) {
    const Result<std::size_t> got = file.read(std::span(bytes).subspan(have));
    if (!got) return got.error();
    if (got.value() == 0) break;
    have += got.value();
  }
  return trace::checksum({reinterpret_cast<const std::uint8_t*>(bytes.data()), have});
}

std::uint64_t build_checksum() {
  const std::string text =
      std::string(GPUMEMPROF_VERSION) + " " + std::to_string(sizeof(DeviceOverview)) + " " +
      std::to_string(sizeof(PhaseFigures)) + " " + std::to_string(sizeof(StepFigures)) + " " +
      std::to_string(sizeof(DeviceReplay)) + " " + std::to_string(sizeof(IndexedDefinitions)) +
      " " + std::to_string(kMemorySourceCount);
  return trace::checksum({reinterpret_cast<const std::uint8_t*>(text.data()), text.size()});
}

Result<Identity> identity_of(const std::string& recording) {
  constexpr std::uint64_t kChecked = std::uint64_t{256} << 10U;
  Result<std::unique_ptr<FileSource>> file = FileSource::open(recording);
  if (!file) return file.error();
  Identity identity;
  identity.size_bytes = file.value()->size_bytes();
  const Result<std::uint64_t> first = checksum_at(*file.value(), 0);
  if (!first) return first.error();
  const Result<std::uint64_t> last =
      checksum_at(*file.value(), identity.size_bytes - std::min(identity.size_bytes, kChecked));
  if (!last) return last.error();
  identity.first_checksum = first.value();
  identity.last_checksum = last.value();
  identity.build = build_checksum();
  return identity;
}

std::optional<std::vector<std::uint8_t>> read_all(const std::string& path) {
  Result<std::unique_ptr<FileSource>> file = FileSource::open(path);
  if (!file) return std::nullopt;
  std::vector<std::uint8_t> bytes(file.value()->size_bytes());
  std::size_t have = 0;
  while (have < bytes.size()) {
    const Result<std::size_t> got =
        file.value()->read(std::as_writable_bytes(std::span(bytes).subspan(have)));
    if (!got || got.value() == 0) return std::nullopt;
    have += got.value();
  }
  return bytes;
}

}  // namespace

Overview overview_at_end(Overview at_peak, Overview at_end) {
  for (std::size_t index = 0; index < at_peak.devices.size(); ++index) {
    DeviceOverview& device = at_peak.devices[index];
    DeviceOverview& end = at_end.devices[index];
    device.asked = {AskedMoment::Kind::end, 0};
    device.asked_when = When();
    device.totals = end.totals;
    device.live = std::move(end.live);
    device.live_lines = std::move(end.live_lines);
    device.memory = std::move(end.memory);
    device.pins = std::move(end.pins);
    device.tags = std::move(end.tags);
    device.asked_sources = end.asked_sources;
  }
  return at_peak;
}

std::string index_path(const std::string& recording) { return recording + ".index"; }

IndexState read_index(const std::string& recording, RunIndex& index) {
  const std::optional<std::vector<std::uint8_t>> bytes = read_all(index_path(recording));
  if (!bytes) return IndexState::missing;
  const std::size_t head = kIndexMagic.size() + sizeof(std::uint64_t);
  if (bytes->size() < head || std::string_view(reinterpret_cast<const char*>(bytes->data()),
                                               kIndexMagic.size()) != kIndexMagic)
    return IndexState::stale;
  std::uint64_t stated = 0;
  std::memcpy(&stated, bytes->data() + kIndexMagic.size(), sizeof(stated));
  const std::span<const std::uint8_t> content = std::span(*bytes).subspan(head);
  if (trace::checksum(content) != stated) return IndexState::stale;
  ArchiveReader archive(content);
  Identity stored;
  archive(stored);
  const Result<Identity> identity = identity_of(recording);
  if (!identity || stored != identity.value()) return IndexState::stale;
  IndexedDefinitions definitions;
  archive(definitions, index.at_peak, index.at_end);
  if (!archive.is_whole() || !restore(definitions, *index.store) ||
      index.at_peak.devices.size() != index.at_end.devices.size())
    return IndexState::stale;
  index.at_peak.path = recording;
  return IndexState::good;
}

Status write_index(const std::string& recording, const Store& store, Overview& at_peak,
                   Overview& at_end) {
  const Result<Identity> identity = identity_of(recording);
  if (!identity) return identity.error();
  ArchiveWriter archive;
  Identity stored = identity.value();
  IndexedDefinitions definitions = definitions_of(store);
  archive(stored, definitions, at_peak, at_end);
  const std::uint64_t checksum = trace::checksum(archive.bytes());
  Result<std::unique_ptr<FileSink>> file = FileSink::create(
      index_path(recording), FileSink::Existing::replace, FileSink::Appears::when_closed);
  if (!file) return file.error();
  const auto write = [&](const void* data, std::size_t size) {
    return file.value()->write({static_cast<const std::byte*>(data), size});
  };
  Status written = write(kIndexMagic.data(), kIndexMagic.size());
  if (written) written = write(&checksum, sizeof(checksum));
  if (written) written = write(archive.bytes().data(), archive.bytes().size());
  if (!written) return written;
  return file.value()->close();
}

}  // namespace gpumemprof
