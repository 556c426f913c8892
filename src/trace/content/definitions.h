// What events refer to, on both sides of the file.
//
// DefinitionTable (writer): gives each distinct string, frame, stack, stream and pool a row, and
// writes the rows added since the last time. Its memory grows with what is distinct, never with the
// number of events. DefinitionMap (reader): the file's rows → the sink's ids. Every row a block
// refers to is checked against it.
//
// Row 0 of the strings is the empty string and is never written to a file.
#pragma once

#include <cstdint>
#include <map>
#include <utility>
#include <vector>

#include "base/flat_map.h"
#include "base/interner.h"
#include "event/event_sink.h"
#include "trace/bytes_io.h"

namespace gpumemprof::trace {

class DefinitionTable {
 public:
  StringId add_string(std::string_view text);
  [[nodiscard]] std::string_view text(StringId id) const {
    return id.is_none() ? "" : strings_.text(id);
  }
  FrameId add_frame(const Frame& frame);
  StackId add_stack(StackId caller, FrameId frame);
  std::uint32_t add_stream(std::uint64_t handle);
  std::uint32_t add_pool(PoolId pool);

  [[nodiscard]] std::size_t string_count() const { return strings_.size(); }
  [[nodiscard]] std::size_t stack_count() const { return stacks_.size(); }
  [[nodiscard]] std::size_t stream_count() const { return streams_.size(); }
  [[nodiscard]] std::size_t pool_count() const { return pools_.size(); }

  [[nodiscard]] bool has_unwritten() const;
  // Appends the content of one definitions block and returns true, or returns false when all is
  // written. A block holds about a mebibyte; call this until all is written.
  bool encode_next(OutBytes& out);

 private:
  struct Node {
    StackId caller;
    FrameId frame;
  };
  struct Written {
    std::size_t strings = 1;
    std::size_t frames = 0;
    std::size_t stacks = 0;
    std::size_t streams = 0;
    std::size_t pools = 0;
  };
  std::size_t encode_strings(OutBytes& out);
  std::size_t encode_frames(OutBytes& out);
  std::size_t encode_stacks(OutBytes& out);

  Interner strings_;
  Column<Frame> frames_;
  std::map<Frame, std::uint32_t> frame_rows_;
  Column<Node> stacks_;
  FlatMap<std::uint32_t> stack_rows_;  // (caller, frame) → row
  std::vector<std::uint64_t> streams_;
  std::vector<PoolId> pools_;
  Written written_;
};

// The file's rows → the sink's ids.
struct DefinedRows {
  std::vector<StringId> strings;
  std::vector<FrameId> frames;
  std::vector<StackId> stacks;
  std::vector<std::uint32_t> streams;
  std::vector<std::uint32_t> pools;
};

class DefinitionMap {
 public:
  explicit DefinitionMap(EventSink& sink) : sink_(sink) { strings_.push_back(sink.add_string("")); }
  // Of a file that is read from the middle: those of all its blocks.
  DefinitionMap(EventSink& sink, DefinedRows known)
      : sink_(sink),
        strings_(std::move(known.strings)),
        frames_(std::move(known.frames)),
        stacks_(std::move(known.stacks)),
        streams_(std::move(known.streams)),
        pools_(std::move(known.pools)) {}

  // False if the content refers to something undefined, or is not a definitions block.
  bool decode(InBytes in);

  [[nodiscard]] const std::vector<StringId>& strings() const { return strings_; }
  [[nodiscard]] const std::vector<StackId>& stacks() const { return stacks_; }
  [[nodiscard]] const std::vector<std::uint32_t>& streams() const { return streams_; }
  [[nodiscard]] const std::vector<std::uint32_t>& pools() const { return pools_; }
  [[nodiscard]] std::uint64_t memory_bytes() const { return memory_bytes_; }

 private:
  void decode_strings(InBytes& in);
  void decode_frames(InBytes& in);
  void decode_stacks(InBytes& in);

  EventSink& sink_;
  std::vector<StringId> strings_;
  std::vector<FrameId> frames_;
  std::vector<StackId> stacks_;
  std::vector<std::uint32_t> streams_;
  std::vector<std::uint32_t> pools_;
  std::uint32_t new_strings_from_ = 0;  // the sink had those before
  std::uint64_t memory_bytes_ = 0;
};

}  // namespace gpumemprof::trace
