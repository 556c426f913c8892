// SnapshotRecords: turns the dicts of a PyTorch snapshot into rows as they are read.
//
// The keys of a dict decide which record it is, so fields may be added, removed and reordered from
// version to version; unknown ones are ignored.
#pragma once

#include <array>
#include <vector>

#include "base/flat_map.h"
#include "event/event_sink.h"
#include "ingest/pickle/heap.h"
#include "ingest/pickle/machine.h"

namespace gpumemprof {

// No machine has more; a larger number in a file is an error or malicious.
inline constexpr DeviceIndex kLastDevice = 1023;

// A segment and where its blocks are.
struct SegmentRow {
  SegmentState state;
  pickle::Value blocks;
};

class SnapshotRecords final : public pickle::RecordBuilder {
 public:
  SnapshotRecords(EventSink& sink, pickle::Heap& heap);

  StringId text(std::string_view text) override;
  [[nodiscard]] std::string_view text_of(StringId id) const override;
  pickle::Value make_record(std::span<const pickle::Value> keys_and_values) override;
  pickle::Value make_stack(std::span<const pickle::Value> frames) override;
  Shortcut read_record(const std::uint8_t* start, const std::uint8_t* end,
                       pickle::Memo& memo) override;
  [[nodiscard]] std::size_t memory_bytes() const override;

  EventColumns& events() { return events_; }
  [[nodiscard]] const Column<BlockState>& blocks() const { return blocks_; }
  [[nodiscard]] const std::vector<SegmentRow>& segments() const { return segments_; }

  // Plain numbers of any width; nothing for other types.
  [[nodiscard]] std::optional<std::uint64_t> number(pickle::Value value) const;
  // From microseconds; kUnknownTime where it is not a time.
  [[nodiscard]] std::int64_t time_ns(pickle::Value time_us) const;
  [[nodiscard]] StackId stack_of(pickle::Value frames);
  // From lines in the format of Python's traceback module, outermost first: torch keeps the stack
  // of a forward operation this way. Other lines are ignored.
  [[nodiscard]] StackId forward_stack_of(pickle::Value lines);

 private:
  enum class Field : std::uint8_t {
    unknown,
    action,
    addr,
    size,
    stream,
    time_us,
    frames,
    compile_context,
    user_metadata,
    pool_id,
    device_free,
    name,
    filename,
    line,
    device,
    address,
    total_size,
    requested_size,
    segment_type,
    segment_pool_id,
    is_expandable,
    blocks,
    state,
    history,
    forward_frames,
    count,
  };
  using Fields = std::array<pickle::Value, static_cast<std::size_t>(Field::count)>;

  [[nodiscard]] static std::uint32_t bit(Field field) { return 1U << static_cast<unsigned>(field); }
  [[nodiscard]] pickle::Value at(Field field) const {
    return fields_[static_cast<std::size_t>(field)];
  }
  [[nodiscard]] std::uint64_t number_at(Field field, std::uint64_t fallback) const;

  // What the shortcut expects because earlier events had it.
  struct ExpectedKey {
    std::uint64_t bytes = 0;
    std::uint64_t mask = 0;
    Field field = Field::unknown;
  };
  static constexpr std::size_t kMostKeys = 16;
  struct KnownFrames {
    std::vector<std::uint8_t> opcodes;
    pickle::Value stack;
  };
  static constexpr std::size_t kKnownFrames = 4096;
  class EventShortcut;
  pickle::Value make_event(std::uint32_t present);
  pickle::Value make_frame();
  pickle::Value add_frame(const Frame& frame);
  pickle::Value frame_of_line(StringId line);
  pickle::Value make_block(std::uint32_t present);
  pickle::Value make_segment(std::uint32_t present);
  void take_old_history(BlockState& block);
  std::uint32_t stream_row(std::uint64_t handle);
  std::uint32_t pool_row(pickle::Value pool);
  StringId label(pickle::Value value, StringId nothing_to_say) const;

  EventSink& sink_;
  pickle::Heap& heap_;
  std::vector<Field> field_of_text_;    // by StringId
  std::vector<Action> action_of_text_;  // by StringId
  std::vector<BlockStateKind> state_of_text_;
  StringId small_;
  StringId not_compiled_;
  StringId empty_;
  StringId real_size_;
  StringId frames_key_;
  std::size_t text_bytes_ = 0;
  std::uint32_t text_count_ = 0;
  std::size_t frame_count_ = 0;
  std::size_t stack_frames_ = 0;  // in all known stacks together

  Fields fields_{};
  EventColumns events_;
  Column<BlockState> blocks_;
  std::vector<SegmentRow> segments_;
  // Most stacks equal the one before; the rest are found by hash.
  std::vector<pickle::Value> last_frames_;
  pickle::Value last_stack_;
  FlatMap<std::uint32_t> stacks_by_hash_;
  std::vector<std::vector<pickle::Value>> known_frames_;
  std::vector<pickle::Value> known_stacks_;
  FlatMap<pickle::Value> frames_by_line_;  // by StringId; absent: the text is not a frame
  std::array<ExpectedKey, kMostKeys> expected_keys_{};
  std::vector<KnownFrames> known_opcodes_{kKnownFrames};
  std::uint64_t last_stream_handle_ = 0;
  std::uint32_t last_stream_row_ = kNoEvent;
};

}  // namespace gpumemprof
