#include "trace/content/event_decoder.h"

#include <algorithm>

namespace gpumemprof::trace {
namespace {

// Reverses the encoder's IdSteps.
class IdWalk {
 public:
  explicit IdWalk(std::size_t known) : known_(known) {}

  // False: not a row that was defined. `code` is not 0.
  bool take(std::uint64_t code, std::size_t& row) {
    last_ += static_cast<std::uint64_t>(unzigzag(code - 1));
    row = static_cast<std::size_t>(last_);
    return last_ < known_;
  }

 private:
  std::uint64_t known_;
  std::uint64_t last_ = 0;
};

void reserve_columns(EventColumns& events, std::size_t count) {
  events.action.reserve(count);
  events.address.reserve(count);
  events.size_bytes.reserve(count);
  events.stream.reserve(count);
  events.time_ns.reserve(count);
  events.stack.reserve(count);
}

void push_place(EventColumns& events, const Event& event) {
  events.action.push_unchecked(event.action);
  events.address.push_unchecked(event.address);
  events.size_bytes.push_unchecked(event.size_bytes);
  events.stream.push_unchecked(event.stream);
  events.stack.push_unchecked(event.stack);
}

}  // namespace

bool EventDecoder::decode(InBytes head, DeviceIndex& device, EventColumns& events) {
  const std::int64_t number = head.signed_varint();
  const auto count = static_cast<std::size_t>(head.below(kMaxBlockEvents + 1));
  const auto shift = static_cast<unsigned>(head.below(64));
  const std::uint64_t time_mode = head.below(3);
  const std::int64_t first_time_ns = head.signed_varint();
  const std::int64_t time_unit_ns = head.signed_varint();
  if (number < kHostDevice || number > std::numeric_limits<DeviceIndex>::max()) return false;
  device = static_cast<DeviceIndex>(number);
  if (!take_columns(head, count)) return false;
  reserve_columns(events, count);
  bool is_good =
      decode_operations(events, count, shift) &&
      decode_times(events, time_mode, first_time_ns, time_unit_ns) &&
      decode_optional(EventColumn::compile_context, events.compile_context, count,
                      definitions_.strings(), StringId()) &&
      decode_optional(EventColumn::user_metadata, events.user_metadata, count,
                      definitions_.strings(), StringId()) &&
      decode_optional(EventColumn::pool, events.pool, count, definitions_.pools(), kNoPool) &&
      decode_optional(EventColumn::forward_stack, events.forward_stack, count,
                      definitions_.stacks(), StackId()) &&
      decode_modules(events.module, count);
  for (const InBytes& bytes : columns_) is_good = is_good && bytes.is_spent();
  return is_good;
}

bool EventDecoder::take_columns(InBytes& head, std::size_t count) {
  std::array<std::uint64_t, kEventColumnCount> lengths{};
  for (std::size_t index = 0; index < column_count_; ++index) lengths[index] = head.varint();
  for (std::size_t index = 0; index < kEventColumnCount; ++index) {
    const std::span<const std::uint8_t> bytes = head.bytes(lengths[index]);
    columns_[index] = InBytes(bytes);
    if (index == static_cast<std::size_t>(EventColumn::operation)) operations_ = bytes;
  }
  // One operation stands for one or two events.
  return head.is_spent() && operations_.size() <= count && operations_.size() >= (count + 1) / 2;
}

bool EventDecoder::decode_operations(EventColumns& events, std::size_t count,
                                     unsigned address_shift) {
  anchors_.clear();
  sizes_.clear();
  last_address_ = 0;
  last_stream_ = 0;
  InBytes& stacks = column(EventColumn::stack);
  IdWalk walk(definitions_.stacks().size());
  Event event;
  for (const std::uint8_t operation : operations_) {
    const std::uint8_t action = operation & kActionMask;
    const bool is_pair = (operation & kPair) != 0;
    event.action = static_cast<Action>(action);
    if (action >= kActionCount || events.size() + (is_pair ? 2 : 1) > count) return false;
    if (is_pair && event.action != Action::free_requested) return false;
    if (!decode_place(events, operation, address_shift, event)) return false;
    if ((operation & kSameStack) == 0) {
      const std::uint64_t code = stacks.varint();
      std::size_t row = 0;
      if (code != 0 && !walk.take(code, row)) return false;
      event.stack = code == 0 ? StackId() : definitions_.stacks()[row];
    }
    push_place(events, event);
    if (!is_pair) continue;
    event.action = Action::free_completed;
    push_place(events, event);
  }
  column(EventColumn::operation) = InBytes();
  return events.size() == count && stacks.ok();
}

bool EventDecoder::decode_place(EventColumns& events, std::uint8_t operation,
                                unsigned address_shift, Event& event) {
  const bool is_same = (operation & kSame) != 0;
  const bool is_free =
      event.action == Action::free_requested || event.action == Action::free_completed;
  const auto row = static_cast<std::uint32_t>(events.size());
  if ((operation & kByReference) != 0) {
    const std::uint64_t distance = column(EventColumn::distance).varint();
    if (distance == 0 || distance > anchors_.size()) return false;
    const std::uint32_t anchor = anchors_[anchors_.size() - distance];
    event.address = events.address[anchor];
    event.stream = events.stream[anchor];
    event.size_bytes = is_same ? events.size_bytes[anchor] : take_size();
    if (!is_free) anchors_.push_back(row);
    return true;
  }
  anchors_.push_back(row);
  last_address_ += static_cast<std::uint64_t>(column(EventColumn::address).signed_varint());
  event.address = last_address_ << address_shift;
  event.size_bytes = take_size();
  if (!is_same)
    last_stream_ = static_cast<std::uint32_t>(
        column(EventColumn::stream).below(definitions_.streams().size()));
  // Also covers the case where no stream was defined at all.
  if (last_stream_ >= definitions_.streams().size()) return false;
  event.stream = definitions_.streams()[last_stream_];
  return true;
}

std::uint64_t EventDecoder::take_size() {
  InBytes& bytes = column(EventColumn::size);
  const std::uint64_t row = bytes.below(sizes_.size() + 1);
  if (row < sizes_.size()) return sizes_[row];
  sizes_.push_back(bytes.varint());
  return sizes_.back();
}

std::uint64_t EventDecoder::take_time_step() {
  std::uint64_t step = 0;
  unsigned shift = 0;
  for (const EventColumn plane :
       {EventColumn::time_low, EventColumn::time_middle, EventColumn::time_high}) {
    const std::uint64_t bits = column(plane).byte();
    step |= (bits & 0x7F) << shift;
    if (bits < 0x80) return step;
    shift += 7;
  }
  return step | (column(EventColumn::time_rest).varint() << shift);
}

bool EventDecoder::decode_times(EventColumns& events, std::uint64_t mode, std::int64_t first_ns,
                                std::int64_t unit_ns) {
  if (mode == 0) {
    events.time_ns.resize(events.size(), kUnknownTime);
    return true;
  }
  InBytes& has_time = column(EventColumn::has_time);
  auto time = static_cast<std::uint64_t>(first_ns);
  const auto push = [&](bool is_second) {
    if (mode == 2 && has_time.byte() == 0) {
      events.time_ns.push_unchecked(kUnknownTime);
      return;
    }
    const std::uint64_t step =
        is_second ? column(EventColumn::pair_time).varint() : take_time_step();
    time += static_cast<std::uint64_t>(unzigzag(step)) * static_cast<std::uint64_t>(unit_ns);
    events.time_ns.push_unchecked(static_cast<std::int64_t>(time));
  };
  for (const std::uint8_t operation : operations_) {
    push(false);
    if ((operation & kPair) != 0) push(true);
  }
  return true;
}

// Modules are named later, if at all: any number below the limit is valid.
bool EventDecoder::decode_modules(Column<std::uint32_t>& modules, std::size_t count) {
  InBytes& bytes = column(EventColumn::module);
  if (bytes.left() == 0) return true;
  IdWalk walk(kMaxModules);
  modules.reserve(count);
  for (std::size_t event = 0; event < count; ++event) {
    const std::uint64_t code = bytes.varint();
    std::size_t number = 0;
    if (code != 0 && !walk.take(code, number)) return false;
    modules.push_unchecked(code == 0 ? kNoModule : static_cast<std::uint32_t>(number));
  }
  return bytes.ok();
}

template <typename T>
bool EventDecoder::decode_optional(EventColumn which, Column<T>& values, std::size_t count,
                                   const std::vector<T>& known, T none) {
  InBytes& bytes = column(which);
  if (bytes.left() == 0) return true;
  IdWalk walk(known.size());
  values.reserve(count);
  for (std::size_t event = 0; event < count; ++event) {
    const std::uint64_t code = bytes.varint();
    std::size_t row = 0;
    if (code != 0 && !walk.take(code, row)) return false;
    values.push_unchecked(code == 0 ? none : known[row]);
  }
  return bytes.ok();
}

}  // namespace gpumemprof::trace
