#include "report/perfetto/perfetto_writer.h"

#include <algorithm>
#include <map>
#include <optional>
#include <protozero/pbf_writer.hpp>

#include "base/printable.h"
#include "report/perfetto/fields.h"

namespace gpumemprof {
namespace {

using perfetto_fields::kTracePacket;
namespace packet = perfetto_fields::packet;
namespace interned_data = perfetto_fields::interned_data;
namespace track_event = perfetto_fields::track_event;
namespace note = perfetto_fields::note;

enum class EventType : std::uint8_t { slice_begin = 1, slice_end = 2, instant = 3, counter = 4 };

constexpr std::uint32_t kSequence = 1;
constexpr std::uint32_t kStateCleared = 1;
constexpr std::uint32_t kNeedsState = 2;
constexpr std::size_t kFlushBytes = std::size_t{1} << 20;

std::uint64_t unsigned_time(std::int64_t time_ns) {
  return time_ns < 0 ? 0 : static_cast<std::uint64_t>(time_ns);
}

}  // namespace

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
    const std::string& pending = writer.interned_.pending();
    if (!pending.empty()) packet_.add_message(packet::kInternedData, pending);
    writer.interned_.clear_pending();
  }

  protozero::pbf_writer& fields() { return packet_; }

 private:
  protozero::pbf_writer trace_;
  protozero::pbf_writer packet_;
};

PerfettoWriter::PerfettoWriter(std::unique_ptr<FileSink> file, const Store& store)
    : file_(std::move(file)), interned_(store) {}

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

void PerfettoWriter::add_clock(std::int64_t time_ns, std::optional<std::int64_t> unix_ns) {
  constexpr std::uint32_t kRealtime = 1;
  constexpr std::uint32_t kMonotonicCoarse = 4;  // that of heap profiles, which do not name it
  constexpr std::uint32_t kBoottime = 6;  // what times count without a word about their clock
  Packet packet(*this, std::nullopt);
  protozero::pbf_writer snapshot(packet.fields(), packet::kClockSnapshot);
  const auto add = [&](std::uint32_t clock, std::int64_t time) {
    protozero::pbf_writer one(snapshot, 1);
    one.add_uint32(1, clock);
    one.add_uint64(2, unsigned_time(time));
  };
  add(kBoottime, time_ns);
  add(kMonotonicCoarse, time_ns);
  if (unix_ns) add(kRealtime, *unix_ns);
}

void PerfettoWriter::begin_slice(std::uint64_t track, std::int64_t time_ns, std::string_view name) {
  const std::uint64_t name_id = interned_.text(interned_data::kEventNames, name);
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
  const std::uint64_t name_id = interned_.text(interned_data::kEventNames, name);
  std::vector<std::uint64_t> note_ids;
  note_ids.reserve(notes.size());
  for (const Note& one : notes)
    note_ids.push_back(interned_.text(interned_data::kNoteNames, one.name));
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
  const std::uint64_t name_id = interned_.text(interned_data::kEventNames, allocation.source);
  const std::uint64_t bytes_id = interned_.text(interned_data::kNoteNames, "bytes");
  std::pair<std::uint64_t, std::uint64_t> texts[4];
  std::size_t count = 0;
  const auto intern = [&](std::string_view name, std::string_view value) {
    if (value.empty()) return;
    texts[count++] = {interned_.text(interned_data::kNoteNames, name),
                      interned_.text(interned_data::kNoteTexts, value)};
  };
  intern("source_provenance", allocation.provenance);
  intern("name", allocation.name);
  intern("tag", allocation.tag);
  texts[count++] = {interned_.text(interned_data::kNoteNames, "stack"),
                    interned_.stack_text(allocation.stack, allocation.is_backward)};
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
  }
  flush(kFlushBytes);
}

std::vector<PerfettoWriter::HeapSample> PerfettoWriter::by_stack(
    const std::vector<HeapSample>& samples) {
  std::map<std::pair<std::uint64_t, bool>, HeapSample> found;
  for (const HeapSample& sample : samples) {
    const std::uint64_t stack = sample.stack.is_none() ? 0 : std::uint64_t{sample.stack.index} + 1;
    const bool is_backward = stack != 0 && sample.is_backward;
    const auto [place, is_new] = found.try_emplace(std::pair(stack, is_backward), sample);
    if (is_new) continue;
    HeapSample& sum = place->second;
    sum.alloc_objects += sample.alloc_objects;
    sum.alloc_bytes += sample.alloc_bytes;
    sum.inuse_objects += sample.inuse_objects;
    sum.inuse_bytes += sample.inuse_bytes;
  }
  std::vector<HeapSample> sums;
  sums.reserve(found.size());
  for (const auto& [key, sample] : found) sums.push_back(sample);
  return sums;
}

void PerfettoWriter::add_heap_profiles(std::int32_t pid, const std::vector<HeapProfile>& heaps) {
  if (heaps.empty()) return;
  std::vector<std::vector<std::pair<std::uint64_t, HeapSample>>> numbered(heaps.size());
  std::int64_t last_ns = 0;
  for (std::size_t heap = 0; heap < heaps.size(); ++heap) {
    last_ns = std::max(last_ns, heaps[heap].time_ns);
    for (const HeapSample& sample : by_stack(heaps[heap].samples))
      numbered[heap].emplace_back(
          interned_.callstack_below(heaps[heap].name, sample.stack, sample.is_backward), sample);
  }
  Packet packet(*this, last_ns);
  protozero::pbf_writer profile(packet.fields(), packet::kProfilePacket);
  for (std::size_t heap = 0; heap < heaps.size(); ++heap) {
    const std::uint64_t time = unsigned_time(heaps[heap].time_ns);
    protozero::pbf_writer dump(profile, 5);
    dump.add_uint64(1, static_cast<std::uint64_t>(pid));
    dump.add_uint64(9, time);
    dump.add_string(11, heaps[heap].name);
    dump.add_uint64(12, 1);  // every byte was counted
    for (const auto& [stack, sample] : numbered[heap]) {
      protozero::pbf_writer one(dump, 2);
      one.add_uint64(1, stack);
      one.add_uint64(2, sample.alloc_bytes);
      one.add_uint64(3, sample.alloc_bytes - sample.inuse_bytes);
      one.add_uint64(4, time);
      one.add_uint64(5, sample.alloc_objects);
      one.add_uint64(6, sample.alloc_objects - sample.inuse_objects);
    }
  }
}

}  // namespace gpumemprof
