// RecordingPlace: where in a recording a block begins, and a source that says where it is, so that
// the recording can be read again from there.
#pragma once

#include <compare>
#include <cstdint>

#include "event/event_sink.h"
#include "trace/block.h"

namespace gpumemprof {

struct RecordingPlace {
  std::uint32_t chapter = 0;  // 0: the recording is one file
  // The chapter to begin with, so that what leads over a gap after it is known; mostly `chapter`.
  std::uint32_t from_chapter = 0;
  trace::BlockPlace block;

  bool operator==(const RecordingPlace&) const = default;
  [[nodiscard]] bool is_before(const RecordingPlace& other) const {
    return chapter != other.chapter ? chapter < other.chapter
                                    : block.byte_offset < other.block.byte_offset;
  }
};

class PlacedSource : public EventSource {
 public:
  // The first block.
  [[nodiscard]] virtual RecordingPlace begin() const = 0;
  // While it delivers: where the block is that the sink gets something of. After it: behind the
  // last one.
  [[nodiscard]] virtual RecordingPlace place() const = 0;
  // Whether what follows can be read from that block on.
  [[nodiscard]] virtual bool can_begin_here() const = 0;
  // Of the recording, before that block.
  [[nodiscard]] virtual std::uint64_t bytes_before() const = 0;
};

}  // namespace gpumemprof
