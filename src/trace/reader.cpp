#include "trace/reader.h"

#include <algorithm>
#include <cstring>

#include "trace/block.h"
#include "trace/bytes_io.h"
#include "trace/checksum.h"
#include "trace/content/about.h"
#include "trace/content/annotations.h"
#include "trace/content/ending.h"
#include "trace/content/event_decoder.h"
#include "trace/content/labels.h"
#include "trace/content/state.h"

namespace gpumemprof {
namespace {

// The memory a file of that size may take once it is open: a forged one must not exhaust the
// machine. A recorded event takes half a byte or more in the file, because of its time, and 80
// bytes in memory; this allows for ten times as much, and for small files whose events have no time
// and repeat themselves, whose compression ratio has no limit.
std::uint64_t memory_limit_bytes(std::uint64_t file_bytes) {
  constexpr std::uint64_t kBase = std::uint64_t{256} << 20;
  constexpr std::uint64_t kPerFileByte = 2048;
  return kBase + file_bytes * kPerFileByte;
}

// Including what replay derives from them.
std::uint64_t memory_of(const EventColumns& events) {
  constexpr std::uint64_t kPerEvent = 80;
  const std::uint64_t optional = events.compile_context.size() + events.user_metadata.size() +
                                 events.pool.size() + events.forward_stack.size() +
                                 events.module.size();
  return events.size() * kPerEvent + optional * sizeof(StringId);
}

}  // namespace

bool looks_like_trace(std::span<const std::byte> start) {
  return start.size() >= trace::kMagic.size() &&
         std::memcmp(start.data(), trace::kMagic.data(), trace::kMagic.size()) == 0;
}

// One pass through the blocks of a file.
class TraceReader::Delivery {
 public:
  Delivery(ByteSource& source, int version, EventSink& sink, std::uint64_t limit_bytes)
      : version_(version),
        sink_(sink),
        blocks_(source),
        definitions_(sink),
        events_(definitions_, version),
        limit_bytes_(limit_bytes) {
    origin_.kind = "gpumemprof";
  }

  // False at the end of what can be read.
  bool step() {
    trace::Block block;
    switch (blocks_.next(block)) {
      case trace::BlockReader::Outcome::end_of_file:
        return false;
      case trace::BlockReader::Outcome::damage:
        cut_ = CutPoint{blocks_.byte_offset(), blocks_.damage()};
        return false;
      case trace::BlockReader::Outcome::block:
        break;
    }
    if (has_ended_) {
      cut_ = CutPoint{block.byte_offset, "more follows the end of the recording"};
    } else if (!take(block)) {
      cut_ = CutPoint{block.byte_offset, "the content of a block (" +
                                             std::string(trace::block_kind_name(block.kind)) +
                                             ") is damaged"};
    } else if (memory_bytes() > limit_bytes_) {
      cut_ = CutPoint{block.byte_offset,
                      "it needs more than " + std::to_string(limit_bytes_ >> 20) +
                          " MiB of memory, far more than recordings of its size do (if you trust "
                          "it, raise the limit: GPUMEMPROF_MAX_MEMORY=8GiB)"};
    }
    return !cut_;
  }

  void finish() {
    if (has_ended_ && !cut_ && ended_events_ != event_count_) {
      cut_ =
          CutPoint{blocks_.byte_offset(), "it holds another number of events than were recorded"};
    }
    origin_.has_traces |= event_count_ > 0;
    if (cut_) {
      // An incomplete list says nothing about the whole state; events after it prove it complete.
      origin_.has_start =
          origin_.has_start && (event_count_ > 0 || state_.is_whole(StateEdge::start));
      origin_.has_segments = origin_.has_segments && state_.is_whole(StateEdge::end);
      origin_.cut = cut_;
    }
    std::erase_if(origin_.facts, [](const auto& fact) { return fact.first == kEndedFact; });
    origin_.facts.emplace_back(
        kEndedFact, has_ended_ && ending_.is_closed ? ending_.reason : std::string(kNotClosed));
    origin_.ending = has_ended_ ? ending_ : Ending();
    sink_.set_settings(settings_);
    sink_.set_origin(origin_);
  }

  [[nodiscard]] std::uint64_t byte_offset() const { return blocks_.byte_offset(); }

 private:
  bool take(const trace::Block& block) {
    const trace::InBytes content(block.content);
    switch (block.kind) {
      case trace::BlockKind::about:
        return trace::decode_about(content, origin_, settings_);
      case trace::BlockKind::definitions:
        return definitions_.decode(content);
      case trace::BlockKind::events:
        return take_events(content);
      case trace::BlockKind::state:
        return state_.decode(content, definitions_, sink_);
      case trace::BlockKind::annotations:
        return take_annotations(content);
      case trace::BlockKind::end:
        has_ended_ = trace::decode_end(content, version_, ending_, ended_events_);
        return has_ended_;
      case trace::BlockKind::labels:
        return version_ >= trace::kLabelsVersion &&
               labels_.decode(content, version_, definitions_, sink_);
    }
    return static_cast<std::uint8_t>(block.kind) >= trace::kFirstOptionalKind;
  }

  bool take_events(const trace::InBytes& content) {
    EventColumns events;
    DeviceIndex device = 0;
    if (!events_.decode(content, device, events)) return false;
    event_count_ += events.size();
    content_bytes_ += memory_of(events);
    sink_.add_events(device, std::move(events));
    return true;
  }

  bool take_annotations(const trace::InBytes& content) {
    if (!trace::decode_annotations(content, version_, definitions_, annotations_)) return false;
    content_bytes_ += annotations_.size() * sizeof(DeviceSample);
    for (const Annotation& annotation : annotations_.annotations) sink_.add_annotation(annotation);
    for (const LostEvents& lost : annotations_.lost_events) sink_.add_lost_events(lost);
    for (const DeviceSample& sample : annotations_.samples) sink_.add_sample(sample);
    return true;
  }

  [[nodiscard]] std::uint64_t memory_bytes() const {
    return content_bytes_ + definitions_.memory_bytes() + state_.memory_bytes() +
           labels_.memory_bytes();
  }

  int version_;
  EventSink& sink_;
  trace::BlockReader blocks_;
  trace::DefinitionMap definitions_;
  trace::EventDecoder events_;
  trace::StateDecoder state_;
  trace::Annotations annotations_;
  trace::LabelDecoder labels_;
  Origin origin_;
  AllocatorSettings settings_;
  std::optional<CutPoint> cut_;
  Ending ending_;
  std::uint64_t ended_events_ = 0;
  bool has_ended_ = false;
  std::uint64_t event_count_ = 0;
  std::uint64_t content_bytes_ = 0;
  std::uint64_t limit_bytes_;
};

Result<std::unique_ptr<TraceReader>> TraceReader::open(const std::string& path, Progress progress) {
  Result<std::unique_ptr<FileSource>> file = FileSource::open(path);
  if (!file) return file.error();
  const std::uint64_t size_bytes = file.value()->size_bytes();
  std::unique_ptr<TraceReader> reader(
      new TraceReader(std::move(file).value(), size_bytes, path, std::move(progress)));
  const Status started = reader->read_file_header();
  if (!started) return started.error();
  return reader;
}

Result<std::unique_ptr<TraceReader>> TraceReader::from_bytes(std::span<const std::byte> bytes,
                                                             std::string name) {
  std::unique_ptr<TraceReader> reader(
      new TraceReader(std::make_unique<BufferSource>(bytes), bytes.size(), std::move(name), {}));
  const Status started = reader->read_file_header();
  if (!started) return started.error();
  return reader;
}

Status TraceReader::read_file_header() {
  std::uint8_t header[trace::kFileHeaderBytes];
  std::size_t have = 0;
  while (have < sizeof(header)) {
    const Result<std::size_t> got =
        source_->read(std::as_writable_bytes(std::span(header).subspan(have)));
    if (!got) return got.error();
    if (got.value() == 0) break;
    have += got.value();
  }
  const auto refuse = [&](std::string message, std::string hint) {
    return Error{ErrorCode::bad_input, std::move(message), name_ + ", byte 0", std::move(hint)};
  };
  if (have == 0) return refuse("the file is empty", "record again");
  if (!looks_like_trace(std::as_bytes(std::span(header, have))))
    return refuse("not a gpumemprof trace", "");
  if (have < sizeof(header)) return refuse("the file ends inside its header", "copy it again");
  trace::InBytes in({header + trace::kMagic.size(), sizeof(header) - trace::kMagic.size()});
  version_ = in.fixed<std::uint16_t>();
  const auto zero = in.fixed<std::uint16_t>();
  const bool is_whole = in.fixed<std::uint32_t>() ==
                        static_cast<std::uint32_t>(trace::checksum(std::span(header).first(12)));
  if (!is_whole || zero != 0 || version_ < trace::kOldestVersion) {
    return refuse("the file header is damaged", "copy the file again");
  }
  if (version_ > trace::kVersion) {
    return refuse("the trace has format version " + std::to_string(version_) +
                      ", and this gpumemprof reads up to " + std::to_string(trace::kVersion),
                  "open it with a newer gpumemprof");
  }
  return Done{};
}

Status TraceReader::deliver(EventSink& sink) {
  Delivery delivery(*source_, version_, sink,
                    std::max(memory_limit_bytes(size_bytes_), least_limit_bytes_));
  while (delivery.step()) {
    if (progress_) progress_(delivery.byte_offset(), size_bytes_);
  }
  delivery.finish();
  return Done{};
}

}  // namespace gpumemprof
