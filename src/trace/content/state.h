// State blocks: the allocator's segments and blocks at the start or the end of a recording.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "event/recording.h"
#include "trace/bytes_io.h"
#include "trace/content/definitions.h"

namespace gpumemprof::trace {

// A run of segments at one edge of the recording, being assembled. A segment with very many blocks
// takes several records.
class StateEncoder {
 public:
  explicit StateEncoder(StateEdge edge) : edge_(edge) {}

  // Adds as many of the blocks, from `first` on, as fit one record, and returns how many; all of
  // them unless there are very many.
  std::size_t add(const SegmentState& segment, std::span<const BlockState> blocks,
                  std::size_t first);
  // Something is waiting to be written, if only that the list is complete.
  [[nodiscard]] bool is_due() const { return count_ != 0 || owes_whole_; }
  [[nodiscard]] bool is_full() const { return records_.size() >= kBytesPerBlock; }
  // Appends the block's content and starts over. `is_whole`: no further segment of this edge is
  // waiting.
  void encode(OutBytes& out, bool is_whole);

 private:
  static constexpr std::size_t kBytesPerBlock = std::size_t{1} << 20;
  StateEdge edge_;
  OutBytes records_;
  std::size_t count_ = 0;
  bool owes_whole_ = false;
};

class StateDecoder {
 public:
  // Passes every complete segment to the sink. False if the content is malformed; what came before
  // is valid.
  bool decode(InBytes in, const DefinitionMap& definitions, EventSink& sink);
  // The last block of this edge said that nothing was left out.
  [[nodiscard]] bool is_whole(StateEdge edge) const {
    return is_whole_[static_cast<std::size_t>(edge)];
  }
  [[nodiscard]] std::uint64_t memory_bytes() const { return memory_bytes_; }

 private:
  bool decode_segment(InBytes& in, const DefinitionMap& definitions);

  SegmentState segment_;
  std::vector<BlockState> blocks_;
  bool is_segment_whole_ = true;
  bool is_whole_[2] = {false, false};
  std::uint64_t memory_bytes_ = 0;
};

}  // namespace gpumemprof::trace
