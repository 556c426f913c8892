#include "trace/delivery.h"

#include <algorithm>

#include "trace/bytes_io.h"
#include "trace/checksum.h"
#include "trace/content/about.h"
#include "trace/content/ending.h"
#include "trace/native/native_modules.h"
#include "trace/reader.h"

namespace gpumemprof::trace {
namespace {

// Including what replay derives from them.
std::uint64_t memory_of(const EventColumns& events) {
  constexpr std::uint64_t kPerEvent = 80;
  const std::uint64_t optional = events.compile_context.size() + events.user_metadata.size() +
                                 events.pool.size() + events.forward_stack.size() +
                                 events.module.size();
  return events.size() * kPerEvent + optional * sizeof(StringId);
}

}  // namespace

Status read_file_header(ByteSource& source, const std::string& name) {
  std::uint8_t header[kFileHeaderBytes];
  std::size_t have = 0;
  while (have < sizeof(header)) {
    const Result<std::size_t> got =
        source.read(std::as_writable_bytes(std::span(header).subspan(have)));
    if (!got) return got.error();
    if (got.value() == 0) break;
    have += got.value();
  }
  const auto refuse = [&](std::string message, std::string hint) {
    return Error{ErrorCode::bad_input, std::move(message), name + ", byte 0", std::move(hint)};
  };
  if (have == 0) return refuse("the file is empty", "record again");
  if (!looks_like_trace(std::as_bytes(std::span(header, have))))
    return refuse("not a gpumemprof trace", "");
  if (have < sizeof(header)) return refuse("the file ends inside its header", "copy it again");
  InBytes in({header + kMagic.size(), sizeof(header) - kMagic.size()});
  const auto version = in.fixed<std::uint16_t>();
  const auto zero = in.fixed<std::uint16_t>();
  const bool is_whole = in.fixed<std::uint32_t>() ==
                        static_cast<std::uint32_t>(checksum(std::span(header).first(12)));
  if (!is_whole || zero != 0) return refuse("the file header is damaged", "copy the file again");
  if (version != kVersion) {
    return refuse("the recording has format version " + std::to_string(version) +
                      ", and this gpumemprof reads version " + std::to_string(kVersion),
                  version < kVersion ? "record again" : "open it with a newer gpumemprof");
  }
  return Done{};
}

Delivery::Delivery(ByteSource& source, EventSink& sink, std::uint64_t limit_bytes)
    : sink_(sink),
      blocks_(source),
      definitions_(sink),
      events_(definitions_),
      limit_bytes_(limit_bytes) {
  origin_.kind = "gpumemprof";
}

Delivery::Outcome Delivery::step() {
  Block block;
  switch (blocks_.next(block)) {
    case BlockReader::Outcome::end_of_file:
      return ending_ ? Outcome::ended : Outcome::end_of_file;
    case BlockReader::Outcome::unfinished:
      cut_ = CutPoint{blocks_.byte_offset(), blocks_.damage()};
      return Outcome::unfinished;
    case BlockReader::Outcome::damage:
      cut_ = CutPoint{blocks_.byte_offset(), blocks_.damage()};
      return Outcome::damaged;
    case BlockReader::Outcome::block:
      break;
  }
  if (ending_) {
    cut_ = CutPoint{block.byte_offset, "more follows the end of the recording"};
  } else if (!take(block)) {
    cut_ =
        CutPoint{block.byte_offset, "the content of a block (" +
                                        std::string(block_kind_name(block.kind)) + ") is damaged"};
  } else if (const std::optional<std::uint64_t> limit_bytes = exceeded_limit_bytes()) {
    cut_ = CutPoint{block.byte_offset,
                    "it needs more than " + std::to_string(*limit_bytes >> 20) +
                        " MiB of memory, far more than recordings of its size do (if you trust "
                        "it, raise the limit: GPUMEMPROF_MAX_MEMORY=8GiB)"};
  }
  return cut_ ? Outcome::damaged : Outcome::more;
}

std::optional<std::uint64_t> Delivery::exceeded_limit_bytes() const {
  if (content_bytes_ + labels_.memory_bytes() + definitions_bytes() > limit_bytes_)
    return limit_bytes_;
  if (definitions_bytes() > definitions_limit_bytes_) return definitions_limit_bytes_;
  return std::nullopt;
}

void Delivery::finish() {
  if (ending_ && !cut_ && ended_events_ != event_count_) {
    cut_ = CutPoint{blocks_.byte_offset(), "it holds another number of events than were recorded"};
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
      kEndedFact, ending_ && ending_->is_closed ? ending_->reason : std::string(kNotClosed));
  origin_.ending = ending_.value_or(Ending());
  sink_.set_settings(settings_);
  sink_.set_origin(origin_);
}

bool Delivery::take(const Block& block) {
  const InBytes content(block.content);
  switch (block.kind) {
    case BlockKind::about:
      return take_about(content);
    case BlockKind::definitions:
      return definitions_.decode(content);
    case BlockKind::events:
      return take_events(content);
    case BlockKind::state:
      return state_.decode(content, definitions_, sink_);
    case BlockKind::annotations:
      return take_annotations(content);
    case BlockKind::end:
      return take_end(content);
    case BlockKind::labels:
      return labels_.decode(content, definitions_, sink_);
    case BlockKind::chapter:
      return take_chapter(content);
    case BlockKind::native_modules:
      return take_native_modules(content);
  }
  return static_cast<std::uint8_t>(block.kind) >= kFirstOptionalKind;
}

// Whoever follows a file needs them before its end.
bool Delivery::take_about(const InBytes& content) {
  if (!decode_about(content, origin_, settings_)) return false;
  sink_.set_settings(settings_);
  sink_.set_origin(origin_);
  return true;
}

bool Delivery::take_native_modules(const InBytes& content) {
  std::vector<NativeModule> modules;
  if (!decode_native_modules(content, modules)) return false;
  content_bytes_ += modules.size() * kNativeModuleBytes + content.left();
  for (const NativeModule& module : modules) sink_.add_native_module(module);
  return true;
}

bool Delivery::take_events(const InBytes& content) {
  EventColumns events;
  DeviceIndex device = 0;
  if (!events_.decode(content, device, events)) return false;
  std::uint64_t& rows = events_of_[device];
  if (events.size() > most_events_ - rows) {
    cut_ = CutPoint{blocks_.byte_offset(), "device " + std::to_string(device) + " has more than " +
                                               std::to_string(most_events_) +
                                               " events, more than can be numbered"};
    return true;
  }
  rows += events.size();
  event_count_ += events.size();
  content_bytes_ += memory_of(events);
  sink_.add_events(device, std::move(events));
  return true;
}

bool Delivery::take_annotations(const InBytes& content) {
  if (!decode_annotations(content, definitions_, annotations_)) return false;
  content_bytes_ += annotations_.size() * sizeof(DeviceSample);
  for (const Annotation& annotation : annotations_.annotations) sink_.add_annotation(annotation);
  for (const LostEvents& lost : annotations_.lost_events) sink_.add_lost_events(lost);
  for (const DeviceSample& sample : annotations_.samples) sink_.add_sample(sample);
  return true;
}

bool Delivery::take_chapter(const InBytes& content) {
  if (!chapter_.decode(content, definitions_)) return false;
  if (chapter_.is_whole()) sink_.add_chapter_start(chapter_.start());
  return true;
}

bool Delivery::take_end(const InBytes& content) {
  Ending ending;
  if (!decode_end(content, ending, ended_events_)) return false;
  ending_ = std::move(ending);
  return true;
}

}  // namespace gpumemprof::trace
