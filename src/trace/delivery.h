// Delivery: one pass through the blocks of a .gmp file, into a sink.
#pragma once

#include <limits>
#include <map>
#include <optional>
#include <string>

#include "base/byte_source.h"
#include "event/event_sink.h"
#include "trace/block.h"
#include "trace/chapters/chapter_block.h"
#include "trace/content/annotations.h"
#include "trace/content/definitions.h"
#include "trace/content/event_decoder.h"
#include "trace/content/labels.h"
#include "trace/content/state.h"

namespace gpumemprof::trace {

// Fails if it is not a .gmp file, or one of another version; `name` is the file's, for the error.
Status read_file_header(ByteSource& source, const std::string& name);

class Delivery {
 public:
  enum class Outcome : std::uint8_t {
    more,
    end_of_file,
    unfinished,  // the file ends inside a block: it is cut off, or more of it is being written
    ended,       // the recording was closed
    damaged,
  };

  // The source is positioned after the file header; it and the sink must outlive this.
  Delivery(ByteSource& source, EventSink& sink, std::uint64_t limit_bytes);

  // What everything may take that is delivered, if it were kept: a forged file is stopped in time.
  void set_limit_bytes(std::uint64_t bytes) { limit_bytes_ = bytes; }
  // The same of all but events and labels, for a sink that does not keep those.
  void set_definitions_limit_bytes(std::uint64_t bytes) { definitions_limit_bytes_ = bytes; }

  // Rows of events have 32 bits, and the last two numbers mean something else.
  static constexpr std::uint64_t kMostEvents = 0xFFFF'FFFE;
  // Reading stops before a device has more events than this, as if the file were cut off there.
  void set_most_events(std::uint64_t events) { most_events_ = events; }

  // Delivers the next block.
  Outcome step();
  // After `unfinished`, once the source has been moved back to byte_offset().
  void resume() {
    cut_.reset();
    blocks_.resume();
  }
  // Delivers the settings and the origin as they are at the end.
  void finish();

  // Of the next block, or of the one that is damaged or unfinished.
  [[nodiscard]] std::uint64_t byte_offset() const { return blocks_.byte_offset(); }
  [[nodiscard]] BlockPlace place() const { return blocks_.place(); }
  [[nodiscard]] std::uint64_t event_count() const { return event_count_; }
  [[nodiscard]] const std::optional<CutPoint>& cut() const { return cut_; }
  [[nodiscard]] const std::optional<Ending>& ending() const { return ending_; }

 private:
  bool take(const Block& block);
  bool take_about(const InBytes& content);
  bool take_events(const InBytes& content);
  bool take_annotations(const InBytes& content);
  bool take_end(const InBytes& content);
  bool take_chapter(const InBytes& content);
  bool take_native_modules(const InBytes& content);
  [[nodiscard]] std::uint64_t definitions_bytes() const {
    return definitions_.memory_bytes() + state_.memory_bytes() + labels_.own_bytes() +
           chapter_.start().live.size() * sizeof(LiveAllocation);
  }
  // The limit that is exceeded; none if all is well.
  [[nodiscard]] std::optional<std::uint64_t> exceeded_limit_bytes() const;

  EventSink& sink_;
  BlockReader blocks_;
  DefinitionMap definitions_;
  EventDecoder events_;
  StateDecoder state_;
  Annotations annotations_;
  LabelDecoder labels_;
  ChapterDecoder chapter_;
  Origin origin_;
  AllocatorSettings settings_;
  std::optional<CutPoint> cut_;
  std::optional<Ending> ending_;
  std::uint64_t ended_events_ = 0;
  std::uint64_t event_count_ = 0;
  std::map<DeviceIndex, std::uint64_t> events_of_;
  std::uint64_t most_events_ = kMostEvents;
  std::uint64_t content_bytes_ = 0;
  std::uint64_t limit_bytes_;
  std::uint64_t definitions_limit_bytes_ = std::numeric_limits<std::uint64_t>::max();
};

}  // namespace gpumemprof::trace
