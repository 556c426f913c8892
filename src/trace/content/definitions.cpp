#include "trace/content/definitions.h"

#include <algorithm>
#include <string>

#include "base/error.h"
#include "base/utf8.h"
#include "trace/format.h"

namespace gpumemprof::trace {
namespace {

constexpr std::size_t kStringBytesPerBlock = std::size_t{1} << 20;
constexpr std::size_t kRowsPerBlock = std::size_t{1} << 16;

// Rows of a slowly increasing column: the zigzag-encoded step from the row before. None counts as
// −1.
class RowSteps {
 public:
  std::int64_t step_to(std::uint32_t row) {
    const std::int64_t value = row == StringId::kNone ? -1 : std::int64_t{row};
    const std::int64_t step = value - last_;
    last_ = value;
    return step;
  }
  // The row a step leads to; past the limit if the step is invalid.
  std::uint64_t take(std::int64_t step) {
    last_ = static_cast<std::int64_t>(static_cast<std::uint64_t>(last_) +
                                      static_cast<std::uint64_t>(step));
    return static_cast<std::uint64_t>(last_);
  }

 private:
  std::int64_t last_ = 0;
};

constexpr std::uint64_t kNoRow = ~std::uint64_t{0};  // −1, as RowSteps::take() returns it

}  // namespace

StringId DefinitionTable::add_string(std::string_view text) {
  return strings_.intern(text.substr(0, kMaxTextBytes));
}

FrameId DefinitionTable::add_frame(const Frame& frame) {
  GMP_CHECK(frame.name.is_none() || frame.name.index < strings_.size());
  GMP_CHECK(frame.file.is_none() || frame.file.index < strings_.size());
  const auto [entry, is_new] =
      frame_rows_.try_emplace(frame, static_cast<std::uint32_t>(frames_.size()));
  if (is_new) frames_.push_back(frame);
  return FrameId(entry->second);
}

StackId DefinitionTable::add_stack(StackId caller, FrameId frame) {
  GMP_CHECK((caller.is_none() || caller.index < stacks_.size()) && frame.index < frames_.size());
  const auto fresh = static_cast<std::uint32_t>(stacks_.size());
  const std::uint64_t step = (std::uint64_t{caller.index} << 32) | frame.index;
  const std::uint32_t row = stack_rows_.find_or_insert(step, fresh);
  if (row == fresh) stacks_.push_back({caller, frame});
  return StackId(row);
}

std::uint32_t DefinitionTable::add_stream(std::uint64_t handle) {
  const auto found = std::find(streams_.begin(), streams_.end(), handle);
  const auto row = static_cast<std::uint32_t>(found - streams_.begin());
  if (row == streams_.size()) streams_.push_back(handle);
  return row;
}

std::uint32_t DefinitionTable::add_pool(PoolId pool) {
  const auto found = std::find(pools_.begin(), pools_.end(), pool);
  const auto row = static_cast<std::uint32_t>(found - pools_.begin());
  if (row == pools_.size()) pools_.push_back(pool);
  return row;
}

bool DefinitionTable::has_unwritten() const {
  return written_.strings < strings_.size() || written_.frames < frames_.size() ||
         written_.stacks < stacks_.size() || written_.streams < streams_.size() ||
         written_.pools < pools_.size();
}

// A row that refers to something waits until that is written, in this block or an earlier one.
bool DefinitionTable::encode_next(OutBytes& out) {
  if (!has_unwritten()) return false;
  written_.strings += encode_strings(out);
  written_.frames += encode_frames(out);
  written_.stacks += encode_stacks(out);
  out.varint(std::min(kRowsPerBlock, streams_.size() - written_.streams));
  for (std::size_t row = 0; row < kRowsPerBlock && written_.streams < streams_.size(); ++row) {
    out.varint(streams_[written_.streams++]);
  }
  out.varint(std::min(kRowsPerBlock, pools_.size() - written_.pools));
  for (std::size_t row = 0; row < kRowsPerBlock && written_.pools < pools_.size(); ++row) {
    out.varint(pools_[written_.pools].graph);
    out.varint(pools_[written_.pools++].user);
  }
  return true;
}

std::size_t DefinitionTable::encode_strings(OutBytes& out) {
  std::size_t count = 0;
  std::size_t bytes = 0;
  while (written_.strings + count < strings_.size() && bytes < kStringBytesPerBlock) {
    bytes += strings_.text(StringId(written_.strings + count++)).size() + 1;
  }
  out.varint(count);
  for (std::size_t row = 0; row < count; ++row)
    out.varint(strings_.text(StringId(written_.strings + row)).size());
  for (std::size_t row = 0; row < count; ++row) {
    const std::string_view text = strings_.text(StringId(written_.strings + row));
    out.bytes({reinterpret_cast<const std::uint8_t*>(text.data()), text.size()});
  }
  return count;
}

std::size_t DefinitionTable::encode_frames(OutBytes& out) {
  const bool can_refer = written_.strings == strings_.size();
  const std::size_t count =
      can_refer ? std::min(kRowsPerBlock, frames_.size() - written_.frames) : 0;
  const std::span<const Frame> frames = frames_.span().subspan(written_.frames, count);
  out.varint(count);
  RowSteps names;
  for (const Frame& frame : frames) out.signed_varint(names.step_to(frame.name.index));
  RowSteps files;
  for (const Frame& frame : frames) out.signed_varint(files.step_to(frame.file.index));
  for (const Frame& frame : frames) out.varint(frame.line);
  return count;
}

std::size_t DefinitionTable::encode_stacks(OutBytes& out) {
  const bool can_refer = written_.frames == frames_.size();
  const std::size_t count =
      can_refer ? std::min(kRowsPerBlock, stacks_.size() - written_.stacks) : 0;
  const std::span<const Node> nodes = stacks_.span().subspan(written_.stacks, count);
  out.varint(count);
  for (std::size_t index = 0; index < count; ++index) {
    const StackId caller = nodes[index].caller;
    out.varint(caller.is_none() ? 0 : written_.stacks + index - caller.index);
  }
  RowSteps frames;
  for (const Node& node : nodes) out.signed_varint(frames.step_to(node.frame.index));
  return count;
}

bool DefinitionMap::decode(InBytes in) {
  decode_strings(in);
  decode_frames(in);
  decode_stacks(in);
  for (std::size_t count = in.count(); count > 0 && in.ok(); --count) {
    streams_.push_back(sink_.add_stream(in.varint()));
    memory_bytes_ += 32;
  }
  for (std::size_t count = in.count(); count > 0 && in.ok(); --count) {
    const std::uint64_t graph = in.varint();
    pools_.push_back(sink_.add_pool({graph, in.varint()}));
    memory_bytes_ += 32;
  }
  return in.is_spent();
}

void DefinitionMap::decode_strings(InBytes& in) {
  const std::size_t count = in.count();
  std::vector<std::uint64_t> lengths(count);
  for (std::uint64_t& length : lengths) length = in.varint();
  for (const std::uint64_t length : lengths) {
    const std::span<const std::uint8_t> bytes = in.bytes(length);
    if (!in.ok()) return;
    const std::string_view text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
    const StringId id = sink_.add_string(is_valid_utf8(text) ? text : repaired_utf8(text));
    strings_.push_back(id);
    memory_bytes_ += sizeof(id);
    // One that the sink had, or keeps as another, takes no more.
    if (id.index < new_strings_from_) continue;
    new_strings_from_ = id.index + 1;
    memory_bytes_ += text.size() + 48;
  }
}

void DefinitionMap::decode_frames(InBytes& in) {
  const std::size_t count = in.count();
  std::vector<Frame> frames(count);
  const auto string_at = [&](std::uint64_t row) {
    if (row == kNoRow) return StringId();
    if (row < strings_.size()) return strings_[row];
    in.fail();
    return StringId();
  };
  RowSteps names;
  for (Frame& frame : frames) frame.name = string_at(names.take(in.signed_varint()));
  RowSteps files;
  for (Frame& frame : frames) frame.file = string_at(files.take(in.signed_varint()));
  for (Frame& frame : frames)
    frame.line = static_cast<std::uint32_t>(in.below(std::uint64_t{1} << 32));
  if (!in.ok()) return;
  for (const Frame& frame : frames) frames_.push_back(sink_.add_frame(frame));
  memory_bytes_ += count * 64;
}

void DefinitionMap::decode_stacks(InBytes& in) {
  const std::size_t count = in.count();
  std::vector<std::uint64_t> callers(count);
  for (std::uint64_t& caller : callers) caller = in.varint();
  RowSteps frames;
  for (const std::uint64_t distance : callers) {
    const std::uint64_t frame = frames.take(in.signed_varint());
    if (distance > stacks_.size() || frame >= frames_.size()) in.fail();
    if (!in.ok()) return;
    const StackId caller = distance == 0 ? StackId() : stacks_[stacks_.size() - distance];
    stacks_.push_back(sink_.add_stack(caller, frames_[frame]));
  }
  memory_bytes_ += count * 48;
}

}  // namespace gpumemprof::trace
