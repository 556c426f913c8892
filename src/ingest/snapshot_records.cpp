#include "ingest/snapshot_records.h"

#include <algorithm>
#include <cstring>

#include "base/interner.h"
#include "base/utf8.h"
#include "ingest/traceback_line.h"

namespace gpumemprof {

using pickle::Tag;
using pickle::Value;

SnapshotRecords::SnapshotRecords(EventSink& sink, pickle::Heap& heap) : sink_(sink), heap_(heap) {
  const auto know = [&](std::string_view name) {
    const StringId id = text(name);
    const std::size_t needed = std::size_t{id.index} + 1;
    if (field_of_text_.size() < needed) field_of_text_.resize(needed, Field::unknown);
    if (action_of_text_.size() < needed) action_of_text_.resize(needed, Action::other);
    if (state_of_text_.size() < needed) state_of_text_.resize(needed, BlockStateKind::inactive);
    return id;
  };
  const std::pair<const char*, Field> names[] = {{"action", Field::action},
                                                 {"addr", Field::addr},
                                                 {"size", Field::size},
                                                 {"stream", Field::stream},
                                                 {"time_us", Field::time_us},
                                                 {"frames", Field::frames},
                                                 {"compile_context", Field::compile_context},
                                                 {"user_metadata", Field::user_metadata},
                                                 {"pool_id", Field::pool_id},
                                                 {"device_free", Field::device_free},
                                                 {"name", Field::name},
                                                 {"filename", Field::filename},
                                                 {"line", Field::line},
                                                 {"device", Field::device},
                                                 {"address", Field::address},
                                                 {"total_size", Field::total_size},
                                                 {"requested_size", Field::requested_size},
                                                 {"segment_type", Field::segment_type},
                                                 {"segment_pool_id", Field::segment_pool_id},
                                                 {"is_expandable", Field::is_expandable},
                                                 {"blocks", Field::blocks},
                                                 {"state", Field::state},
                                                 {"history", Field::history},
                                                 {"forward_frames", Field::forward_frames}};
  for (const auto& [name, field] : names) field_of_text_[know(name).index] = field;
  for (std::size_t index = 0; index < kActionCount; ++index) {
    const auto action = static_cast<Action>(index);
    action_of_text_[know(action_name(action)).index] = action;
  }
  state_of_text_[know("active_allocated").index] = BlockStateKind::active_allocated;
  // The second spelling appears only in PyTorch's documentation, but costs nothing to accept.
  state_of_text_[know("active_pending_free").index] = BlockStateKind::active_pending_free;
  state_of_text_[know("active_awaiting_free").index] = BlockStateKind::active_pending_free;
  small_ = know("small");
  not_compiled_ = know("N/A");
  empty_ = know("");
  real_size_ = know("real_size");
  frames_key_ = know("frames");
}

StringId SnapshotRecords::text(std::string_view text) {
  const StringId id =
      is_valid_utf8(text) ? sink_.add_string(text) : sink_.add_string(repaired_utf8(text));
  if (id.index >= text_count_) {
    text_count_ = id.index + 1;
    text_bytes_ += text.size();
  }
  return id;
}

std::string_view SnapshotRecords::text_of(StringId id) const { return sink_.text(id); }

std::size_t SnapshotRecords::memory_bytes() const {
  // What a sink keeps for each, besides the content: entries in columns and hash tables.
  constexpr std::size_t kInternedText = 80;
  constexpr std::size_t kFrame = 64;
  constexpr std::size_t kStackNode = 64;
  return text_bytes_ + text_count_ * kInternedText + events_.size() * 40 +
         blocks_.capacity_bytes() + segments_.capacity() * sizeof(SegmentRow) +
         known_frames_.size() * 128 + frames_by_line_.size() * 32 +
         stack_frames_ * (kStackNode + sizeof(Value)) + frame_count_ * kFrame;
}

std::optional<std::uint64_t> SnapshotRecords::number(Value value) const {
  if (value.is(Tag::integer)) return static_cast<std::uint64_t>(value.number());
  if (value.is(Tag::boolean)) return value.payload();
  if (value.is(Tag::wide_integer)) {
    const pickle::WideInteger wide = heap_.wide_integer(value);
    return wide.negative ? ~wide.magnitude + 1 : wide.magnitude;
  }
  return std::nullopt;
}

std::int64_t SnapshotRecords::time_ns(Value time_us) const {
  constexpr std::int64_t kLatest = std::int64_t{1} << 53;  // the year 2255
  const bool is_time =
      time_us.is(Tag::integer) && time_us.number() > -kLatest && time_us.number() < kLatest;
  return is_time ? time_us.number() * 1000 : kUnknownTime;
}

std::uint64_t SnapshotRecords::number_at(Field field, std::uint64_t fallback) const {
  const Value value = at(field);
  if (value.is(Tag::integer)) [[likely]]
    return static_cast<std::uint64_t>(value.number());
  return number(value).value_or(fallback);
}

Value SnapshotRecords::make_record(std::span<const Value> keys_and_values) {
  std::uint32_t present = 0;
  for (std::size_t index = 0; index < keys_and_values.size(); index += 2) {
    const Value key = keys_and_values[index];
    if (!key.is(Tag::text) || key.row() >= field_of_text_.size()) continue;
    const Field field = field_of_text_[key.row()];
    present |= bit(field);
    fields_[static_cast<std::size_t>(field)] = keys_and_values[index + 1];
  }
  const auto has = [present](std::uint32_t wanted) { return (present & wanted) == wanted; };
  if (has(bit(Field::action))) return make_event(present);
  if (has(bit(Field::filename) | bit(Field::name))) {
    if (!has(bit(Field::line))) fields_[static_cast<std::size_t>(Field::line)] = Value();
    return make_frame();
  }
  if (has(bit(Field::blocks) | bit(Field::total_size))) return make_segment(present);
  if (has(bit(Field::state) | bit(Field::size))) return make_block(present);
  return {};
}

Value SnapshotRecords::make_event(std::uint32_t present) {
  // fields_ still holds values of earlier dicts: only fields present now may be read.
  const auto field = [&](Field wanted) {
    return (present & bit(wanted)) != 0 ? at(wanted) : Value();
  };
  const auto number_of = [&](Field wanted, std::uint64_t fallback) {
    return (present & bit(wanted)) != 0 ? number_at(wanted, fallback) : fallback;
  };
  Event event;
  const Value action = at(Field::action);
  if (action.is(Tag::text) && action.row() < action_of_text_.size())
    event.action = action_of_text_[action.row()];
  const bool is_oom = event.action == Action::oom;
  event.address = number_of(is_oom ? Field::device_free : Field::addr, is_oom ? kUnknownBytes : 0);
  event.size_bytes = number_of(Field::size, 0);
  event.stream = stream_row(number_of(Field::stream, 0));
  event.time_ns = time_ns(field(Field::time_us));
  event.stack = stack_of(field(Field::frames));
  if ((present & bit(Field::forward_frames)) != 0)
    event.forward_stack = forward_stack_of(at(Field::forward_frames));
  event.compile_context = label(field(Field::compile_context), not_compiled_);
  event.user_metadata = label(field(Field::user_metadata), empty_);
  event.pool = pool_row(field(Field::pool_id));
  const bool needs_address = event.action <= Action::segment_unmap;
  if (needs_address && !number(field(Field::addr))) event.action = Action::other;
  events_.push_back(event);
  return {Tag::event, events_.size() - 1};
}

StringId SnapshotRecords::label(Value value, StringId nothing_to_say) const {
  if (!value.is(Tag::text) || value.row() == nothing_to_say.index) return {};
  return StringId(value.row());
}

Value SnapshotRecords::make_frame() {
  Frame frame;
  if (at(Field::name).is(Tag::text)) frame.name = StringId(at(Field::name).row());
  if (at(Field::filename).is(Tag::text)) frame.file = StringId(at(Field::filename).row());
  frame.line = static_cast<std::uint32_t>(number_at(Field::line, 0));
  return add_frame(frame);
}

Value SnapshotRecords::add_frame(const Frame& frame) {
  const FrameId id = sink_.add_frame(frame);
  frame_count_ = std::max<std::size_t>(frame_count_, id.index + 1);
  return {Tag::frame, id.index};
}

Value SnapshotRecords::make_block(std::uint32_t present) {
  const auto number_of = [&](Field wanted, std::uint64_t fallback) {
    return (present & bit(wanted)) != 0 ? number_at(wanted, fallback) : fallback;
  };
  BlockState block;
  block.address = number_of(Field::address, kUnknownBytes);  // torch 2.0 leaves it out
  block.size_bytes = number_of(Field::size, 0);
  const Value state = at(Field::state);
  if (state.is(Tag::text) && state.row() < state_of_text_.size())
    block.state = state_of_text_[state.row()];
  block.requested_bytes = number_of(Field::requested_size, block.size_bytes);
  if ((present & bit(Field::frames)) != 0) block.stack = stack_of(at(Field::frames));
  if ((present & bit(Field::history)) != 0) take_old_history(block);
  blocks_.push_back(block);
  return {Tag::block, blocks_.size() - 1};
}

// torch 2.0: {"history": [{"addr", "real_size", "frames"}]}, newest first, where later versions
// have requested_size and frames.
void SnapshotRecords::take_old_history(BlockState& block) {
  const std::vector<Value>* entries = heap_.values_of(at(Field::history));
  const pickle::DictItems* newest =
      entries != nullptr && !entries->empty() ? heap_.items_of(entries->front()) : nullptr;
  if (newest == nullptr) return;
  for (const auto& [key, value] : *newest) {
    if (key.is(Tag::text) && key.row() == real_size_.index)
      block.requested_bytes = number(value).value_or(0);
    if (key.is(Tag::text) && key.row() == frames_key_.index) block.stack = stack_of(value);
  }
}

Value SnapshotRecords::make_segment(std::uint32_t present) {
  const auto field = [&](Field wanted) {
    return (present & bit(wanted)) != 0 ? at(wanted) : Value();
  };
  const auto number_of = [&](Field wanted) { return number(field(wanted)).value_or(0); };
  SegmentRow row;
  const auto device = static_cast<std::int64_t>(number_of(Field::device));
  row.state.device =
      static_cast<DeviceIndex>(std::clamp<std::int64_t>(device, kHostDevice, kLastDevice));
  row.state.address = number_of(Field::address);
  row.state.size_bytes = number_of(Field::total_size);
  row.state.stream = stream_row(number_of(Field::stream));
  row.state.pool = pool_row(field(Field::segment_pool_id));
  row.state.is_small =
      field(Field::segment_type).is(Tag::text) && at(Field::segment_type).row() == small_.index;
  row.state.is_expandable = number_of(Field::is_expandable) != 0;
  row.state.stack = stack_of(field(Field::frames));
  row.blocks = field(Field::blocks);
  segments_.push_back(row);
  return {Tag::segment, segments_.size() - 1};
}

StackId SnapshotRecords::stack_of(Value frames) {
  Value resolved = heap_.resolve(frames);
  if (const std::vector<Value>* values = heap_.values_of(resolved); values != nullptr) {
    // The list stays a stack from now on: it is scanned once, however many events share it.
    std::vector<Value> only_frames;
    std::copy_if(values->begin(), values->end(), std::back_inserter(only_frames),
                 [](Value value) { return value.is(Tag::frame); });
    heap_.list_slot(resolved) = make_stack(only_frames);
    resolved = heap_.list_slot(resolved);
  }
  return resolved.is(Tag::stack) ? StackId(resolved.row()) : StackId();
}

StackId SnapshotRecords::forward_stack_of(Value lines) {
  Value resolved = heap_.resolve(lines);
  if (const std::vector<Value>* values = heap_.values_of(resolved); values != nullptr) {
    std::vector<Value> innermost_first;
    for (std::size_t index = values->size(); index-- > 0;) {
      const Value line = (*values)[index];
      if (!line.is(Tag::text)) continue;
      const Value frame = frame_of_line(StringId(line.row()));
      if (frame.is(Tag::frame)) innermost_first.push_back(frame);
    }
    // As in stack_of: scanned once, however many events share it.
    heap_.list_slot(resolved) = make_stack(innermost_first);
    resolved = heap_.list_slot(resolved);
  }
  return resolved.is(Tag::stack) ? StackId(resolved.row()) : StackId();
}

Value SnapshotRecords::frame_of_line(StringId line) {
  if (const Value* known = frames_by_line_.find(line.index)) return *known;
  Value frame;
  if (const std::optional<TracebackLine> read = read_traceback_line(text_of(line))) {
    // Copies: the sink's texts may move when one is added.
    const std::string file(read->file);
    const std::string name(read->name);
    frame = add_frame({text(name), text(file), read->line});
  }
  frames_by_line_.insert_or_assign(line.index, frame);
  return frame;
}

std::uint32_t SnapshotRecords::stream_row(std::uint64_t handle) {
  if (handle != last_stream_handle_ || last_stream_row_ == kNoEvent) {
    last_stream_row_ = sink_.add_stream(handle);
    last_stream_handle_ = handle;
  }
  return last_stream_row_;
}

std::uint32_t SnapshotRecords::pool_row(Value pool) {
  if (pool.is(Tag::int_pair)) {
    constexpr std::uint64_t kLow = (std::uint64_t{1} << 28) - 1;
    return sink_.add_pool({pool.payload() >> 28, pool.payload() & kLow});
  }
  if (!pool.is(Tag::tuple)) return kNoPool;
  const std::span<const Value> items = heap_.tuple_items(pool);
  if (items.size() != 2) return kNoPool;
  return sink_.add_pool({number(items[0]).value_or(0), number(items[1]).value_or(0)});
}

Value SnapshotRecords::make_stack(std::span<const Value> frames) {
  if (frames.empty()) return {Tag::stack, StackId().index};
  const auto same = [&](const std::vector<Value>& known) {
    return known.size() == frames.size() &&
           std::memcmp(known.data(), frames.data(), frames.size_bytes()) == 0;
  };
  if (same(last_frames_)) return last_stack_;
  const std::uint64_t hash =
      hash_bytes({reinterpret_cast<const char*>(frames.data()), frames.size_bytes()});
  const auto fresh = static_cast<std::uint32_t>(known_frames_.size());
  std::uint32_t& known = stacks_by_hash_.find_or_insert(hash, fresh);
  if (known == fresh || !same(known_frames_[known])) {
    StackId stack;
    for (std::size_t index = frames.size(); index-- > 0;)
      stack = sink_.add_stack(stack, FrameId(frames[index].row()));
    known = fresh;
    known_frames_.emplace_back(frames.begin(), frames.end());
    stack_frames_ += frames.size();
    known_stacks_.emplace_back(Tag::stack, stack.index);
  }
  last_frames_.assign(frames.begin(), frames.end());
  last_stack_ = known_stacks_[known];
  return last_stack_;
}

}  // namespace gpumemprof
