#include "report/perfetto/perfetto_writer.h"

#include <optional>
#include <protozero/pbf_writer.hpp>
#include <ranges>

#include "analysis/code/shown_file.h"
#include "base/printable.h"

namespace gpumemprof {
namespace {

using Tag = protozero::pbf_tag_type;

// Field numbers of perfetto_trace.proto, by message.
constexpr Tag kTracePacket = 1;
namespace packet {
constexpr Tag kClockSnapshot = 6;
constexpr Tag kTimestamp = 8;
constexpr Tag kSequenceId = 10;
constexpr Tag kTrackEvent = 11;
constexpr Tag kInternedData = 12;
constexpr Tag kSequenceFlags = 13;
constexpr Tag kProfilePacket = 37;
constexpr Tag kTrackDescriptor = 60;
}  // namespace packet
namespace interned_data {
constexpr Tag kEventNames = 2;
constexpr Tag kNoteNames = 3;
constexpr Tag kFunctionNames = 5;
constexpr Tag kFrames = 6;
constexpr Tag kCallstacks = 7;
constexpr Tag kBuildIds = 16;
constexpr Tag kMappingPaths = 17;
constexpr Tag kSourcePaths = 18;
constexpr Tag kMappings = 19;
constexpr Tag kNoteTexts = 29;
}  // namespace interned_data
namespace track_event {
constexpr Tag kNotes = 4;
constexpr Tag kType = 9;
constexpr Tag kNameId = 10;
constexpr Tag kTrack = 11;
constexpr Tag kExtraCounterValues = 12;
constexpr Tag kCounterValue = 30;
constexpr Tag kExtraCounterTracks = 31;
constexpr Tag kCallstackId = 56;
}  // namespace track_event
namespace note {
constexpr Tag kNameId = 1;
constexpr Tag kUint = 3;
constexpr Tag kText = 6;
constexpr Tag kTextId = 17;
}  // namespace note

enum class EventType : std::uint8_t { slice_begin = 1, slice_end = 2, instant = 3, counter = 4 };

constexpr std::uint32_t kSequence = 1;
constexpr std::uint32_t kStateCleared = 1;
constexpr std::uint32_t kNeedsState = 2;
constexpr std::size_t kFlushBytes = std::size_t{1} << 20;
// The one module that all frames belong to: readers drop a frame without one.
constexpr std::uint64_t kMapping = 1;

std::uint64_t unsigned_time(std::int64_t time_ns) {
  return time_ns < 0 ? 0 : static_cast<std::uint64_t>(time_ns);
}

}  // namespace

// Texts and stacks that were used before, by numbers from 1.
class PerfettoWriter::Interned {
 public:
  explicit Interned(const Store& store) : store_(store) {}

  // Numbers a text of a kind, and writes it to `pending` if it is new.
  std::uint64_t text(Tag kind, std::string_view value) {
    std::unordered_map<std::string, std::uint64_t>& known = texts_[kind];
    key_.assign(value);
    const auto [place, is_new] = known.try_emplace(key_, known.size() + 1);
    if (is_new) {
      protozero::pbf_writer data(pending_);
      protozero::pbf_writer one(data, kind);
      one.add_uint64(1, place->second);
      one.add_bytes(2, value.data(), value.size());
    }
    return place->second;
  }

  std::uint64_t callstack(StackId stack, bool is_backward) {
    const std::uint64_t key =
        stack.is_none() ? 0 : (std::uint64_t{stack.index} + 1) << 1U | (is_backward ? 1 : 0);
    const auto [place, is_new] = stacks_.try_emplace(key, stacks_.size() + 1);
    if (!is_new) return place->second;
    write_mapping();
    std::vector<std::uint64_t> frames;
    if (stack.is_none()) {
      frames.push_back(named_frame("[no stack]"));
    } else {
      const std::vector<FrameId> inner_first = store_.stacks().frames_of(stack);
      for (const FrameId frame : inner_first | std::views::reverse)
        frames.push_back(frame_number(frame));
      if (is_backward) frames.push_back(named_frame("[backward]"));
    }
    protozero::pbf_writer data(pending_);
    protozero::pbf_writer one(data, interned_data::kCallstacks);
    one.add_uint64(1, place->second);
    for (const std::uint64_t frame : frames) one.add_uint64(2, frame);
    return place->second;
  }

  // What was new since the last call.
  [[nodiscard]] const std::string& pending() const { return pending_; }
  void clear_pending() { pending_.clear(); }

 private:
  void write_mapping() {
    if (has_mapping_) return;
    has_mapping_ = true;
    const std::uint64_t path = text(interned_data::kMappingPaths, "python");
    const std::uint64_t build = text(interned_data::kBuildIds, "gpumemprof");
    protozero::pbf_writer data(pending_);
    protozero::pbf_writer mapping(data, interned_data::kMappings);
    mapping.add_uint64(1, kMapping);
    mapping.add_uint64(2, build);
    mapping.add_uint64(7, path);
  }

  std::uint64_t frame_number(FrameId id) {
    const auto [place, is_new] = frames_.try_emplace(id.index, next_frame_);
    if (!is_new) return place->second;
    const Frame& frame = store_.frame(id);
    const std::string file =
        printable(shown_file(store_.text(frame.file), store_.program_folder()));
    // The flame graph of the UI shows the function alone, so the line is part of its name.
    std::string name = printable(store_.text(frame.name));
    if (!file.empty()) name += " (" + file + ":" + std::to_string(frame.line) + ")";
    write_frame(name, file, frame.line);
    return place->second;
  }

  std::uint64_t named_frame(const std::string& name) {
    const auto [place, is_new] = named_frames_.try_emplace(name, next_frame_);
    if (is_new) write_frame(name, "", 0);
    return place->second;
  }

  void write_frame(const std::string& name, const std::string& file, std::uint32_t line) {
    const std::uint64_t function = text(interned_data::kFunctionNames, name);
    const std::uint64_t path = file.empty() ? 0 : text(interned_data::kSourcePaths, file);
    protozero::pbf_writer data(pending_);
    protozero::pbf_writer one(data, interned_data::kFrames);
    one.add_uint64(1, next_frame_);
    one.add_uint64(2, function);
    one.add_uint64(3, kMapping);
    // Readers take frames of one module and address for the same frame.
    one.add_uint64(4, next_frame_);
    if (path != 0) one.add_uint64(5, path);
    if (line != 0) one.add_uint32(6, line);
    ++next_frame_;
  }

  const Store& store_;
  std::string pending_;
  std::string key_;
  std::unordered_map<Tag, std::unordered_map<std::string, std::uint64_t>> texts_;
  std::unordered_map<std::uint64_t, std::uint64_t> stacks_;
  std::unordered_map<std::uint32_t, std::uint64_t> frames_;
  std::unordered_map<std::string, std::uint64_t> named_frames_;
  std::uint64_t next_frame_ = 1;
  bool has_mapping_ = false;
};

// One packet, complete when it goes out of scope. Texts are interned before it is made.
class PerfettoWriter::Packet {
 public:
  Packet(PerfettoWriter& writer, std::optional<std::int64_t> time_ns)
      : trace_(writer.buffer_), packet_(trace_, kTracePacket) {
    if (time_ns) packet_.add_uint64(packet::kTimestamp, unsigned_time(*time_ns));
    packet_.add_uint32(packet::kSequenceId, kSequence);
    packet_.add_uint32(packet::kSequenceFlags,
                       writer.is_first_ ? kStateCleared | kNeedsState : kNeedsState);
    writer.is_first_ = false;
    const std::string& pending = writer.interned_->pending();
    if (!pending.empty()) packet_.add_message(packet::kInternedData, pending);
    writer.interned_->clear_pending();
  }

  protozero::pbf_writer& fields() { return packet_; }

 private:
  protozero::pbf_writer trace_;
  protozero::pbf_writer packet_;
};

PerfettoWriter::PerfettoWriter(std::unique_ptr<FileSink> file, const Store& store)
    : file_(std::move(file)), store_(store), interned_(std::make_unique<Interned>(store)) {}

PerfettoWriter::~PerfettoWriter() = default;

void PerfettoWriter::flush(std::size_t at_least) {
  if (buffer_.size() < at_least) return;
  if (status_) status_ = file_->write(std::as_bytes(std::span(buffer_)));
  buffer_.clear();
}

Status PerfettoWriter::finish() {
  flush(1);
  return status_ ? file_->close() : status_;
}

void PerfettoWriter::add_process(std::uint64_t track, std::int32_t pid, const std::string& name) {
  Packet packet(*this, std::nullopt);
  protozero::pbf_writer descriptor(packet.fields(), packet::kTrackDescriptor);
  descriptor.add_uint64(1, track);
  protozero::pbf_writer process(descriptor, 3);
  process.add_int32(1, pid);
  process.add_string(6, printable(name));
}

void PerfettoWriter::add_track(const Track& track) {
  constexpr std::int32_t kExplicitOrder = 3;
  constexpr std::int32_t kBytes = 3;
  Packet packet(*this, std::nullopt);
  protozero::pbf_writer descriptor(packet.fields(), packet::kTrackDescriptor);
  descriptor.add_uint64(1, track.id);
  descriptor.add_string(2, printable(track.name));
  descriptor.add_uint64(5, track.parent);
  if (track.kind == TrackKind::group) descriptor.add_enum(11, kExplicitOrder);
  descriptor.add_int32(12, track.rank);
  if (!track.description.empty()) descriptor.add_string(14, track.description);
  if (track.kind != TrackKind::counter) return;
  protozero::pbf_writer counter(descriptor, 8);
  counter.add_enum(3, kBytes);
}

void PerfettoWriter::add_clock(std::int64_t time_ns, std::int64_t unix_ns) {
  constexpr std::uint32_t kRealtime = 1;
  constexpr std::uint32_t kBoottime = 6;  // what times count without a word about their clock
  Packet packet(*this, std::nullopt);
  protozero::pbf_writer snapshot(packet.fields(), packet::kClockSnapshot);
  for (const auto& [clock, time] : {std::pair(kBoottime, time_ns), std::pair(kRealtime, unix_ns)}) {
    protozero::pbf_writer one(snapshot, 1);
    one.add_uint32(1, clock);
    one.add_uint64(2, unsigned_time(time));
  }
}

void PerfettoWriter::begin_slice(std::uint64_t track, std::int64_t time_ns, std::string_view name) {
  const std::uint64_t name_id = interned_->text(interned_data::kEventNames, name);
  {
    Packet packet(*this, time_ns);
    protozero::pbf_writer event(packet.fields(), packet::kTrackEvent);
    event.add_enum(track_event::kType, static_cast<std::int32_t>(EventType::slice_begin));
    event.add_uint64(track_event::kNameId, name_id);
    event.add_uint64(track_event::kTrack, track);
  }
  flush(kFlushBytes);
}

void PerfettoWriter::end_slice(std::uint64_t track, std::int64_t time_ns) {
  Packet packet(*this, time_ns);
  protozero::pbf_writer event(packet.fields(), packet::kTrackEvent);
  event.add_enum(track_event::kType, static_cast<std::int32_t>(EventType::slice_end));
  event.add_uint64(track_event::kTrack, track);
}

void PerfettoWriter::add_counter(std::uint64_t track, std::int64_t time_ns, std::uint64_t value) {
  {
    Packet packet(*this, time_ns);
    protozero::pbf_writer event(packet.fields(), packet::kTrackEvent);
    event.add_enum(track_event::kType, static_cast<std::int32_t>(EventType::counter));
    event.add_uint64(track_event::kTrack, track);
    event.add_int64(track_event::kCounterValue, static_cast<std::int64_t>(value));
  }
  flush(kFlushBytes);
}

void PerfettoWriter::add_instant(std::uint64_t track, std::int64_t time_ns, std::string_view name,
                                 const std::vector<Note>& notes) {
  const std::uint64_t name_id = interned_->text(interned_data::kEventNames, name);
  std::vector<std::uint64_t> note_ids;
  note_ids.reserve(notes.size());
  for (const Note& one : notes)
    note_ids.push_back(interned_->text(interned_data::kNoteNames, one.name));
  Packet packet(*this, time_ns);
  protozero::pbf_writer event(packet.fields(), packet::kTrackEvent);
  event.add_enum(track_event::kType, static_cast<std::int32_t>(EventType::instant));
  event.add_uint64(track_event::kNameId, name_id);
  event.add_uint64(track_event::kTrack, track);
  for (std::size_t index = 0; index < notes.size(); ++index) {
    protozero::pbf_writer written(event, track_event::kNotes);
    written.add_uint64(note::kNameId, note_ids[index]);
    written.add_string(note::kText, notes[index].text);
  }
}

void PerfettoWriter::add_allocation(const Allocation& allocation) {
  const std::uint64_t name_id = interned_->text(interned_data::kEventNames, allocation.source);
  const std::uint64_t stack_id = interned_->callstack(allocation.stack, allocation.is_backward);
  const std::uint64_t bytes_id = interned_->text(interned_data::kNoteNames, "bytes");
  std::pair<std::uint64_t, std::uint64_t> texts[3];
  std::size_t count = 0;
  const auto intern = [&](std::string_view name, std::string_view value) {
    if (value.empty()) return;
    texts[count++] = {interned_->text(interned_data::kNoteNames, name),
                      interned_->text(interned_data::kNoteTexts, value)};
  };
  intern("source_provenance", allocation.provenance);
  intern("name", allocation.name);
  intern("tag", allocation.tag);
  {
    Packet packet(*this, allocation.time_ns);
    protozero::pbf_writer event(packet.fields(), packet::kTrackEvent);
    event.add_enum(track_event::kType, static_cast<std::int32_t>(EventType::instant));
    event.add_uint64(track_event::kNameId, name_id);
    event.add_uint64(track_event::kTrack, allocation.track);
    {
      protozero::pbf_writer written(event, track_event::kNotes);
      written.add_uint64(note::kNameId, bytes_id);
      written.add_uint64(note::kUint, allocation.bytes);
    }
    for (std::size_t index = 0; index < count; ++index) {
      protozero::pbf_writer written(event, track_event::kNotes);
      written.add_uint64(note::kNameId, texts[index].first);
      written.add_uint64(note::kTextId, texts[index].second);
    }
    for (const auto& [track, value] : allocation.counters) {
      event.add_uint64(track_event::kExtraCounterTracks, track);
      event.add_int64(track_event::kExtraCounterValues, static_cast<std::int64_t>(value));
    }
    event.add_uint64(track_event::kCallstackId, stack_id);
  }
  flush(kFlushBytes);
}

void PerfettoWriter::add_heap_profile(const std::string& heap, std::int32_t pid,
                                      std::int64_t time_ns,
                                      const std::vector<HeapSample>& samples) {
  std::vector<std::uint64_t> stacks;
  stacks.reserve(samples.size());
  for (const HeapSample& sample : samples)
    stacks.push_back(interned_->callstack(sample.stack, sample.is_backward));
  Packet packet(*this, time_ns);
  protozero::pbf_writer profile(packet.fields(), packet::kProfilePacket);
  protozero::pbf_writer dump(profile, 5);
  dump.add_uint64(1, static_cast<std::uint64_t>(pid));
  dump.add_uint64(9, unsigned_time(time_ns));
  dump.add_string(11, heap);
  dump.add_uint64(12, 1);  // every byte was counted
  for (std::size_t index = 0; index < samples.size(); ++index) {
    const HeapSample& sample = samples[index];
    protozero::pbf_writer one(dump, 2);
    one.add_uint64(1, stacks[index]);
    one.add_uint64(2, sample.alloc_bytes);
    one.add_uint64(3, sample.alloc_bytes - sample.inuse_bytes);
    one.add_uint64(4, unsigned_time(time_ns));
    one.add_uint64(5, sample.alloc_objects);
    one.add_uint64(6, sample.alloc_objects - sample.inuse_objects);
  }
}

}  // namespace gpumemprof
