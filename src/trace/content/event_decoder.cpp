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
  for (std::uint64_t& length : lengths) length = head.varint();
  for (std::size_t index = 0; index < kEventColumnCount; ++index) {
    const std::span<const std::uint8_t> bytes = head.bytes(lengths[index]);
    columns_[index] = InBytes(bytes);
    if (index == static_cast<std::size_t>(EventColumn::operation)) operations_ = bytes;
  }
  // One operation stands for one or two events.
  return head.is_spent() && operations_.size() <= count && operations_.size() >= (count + 1) / 2;
}

// Everything that an event changes is local, so that the compiler need not store it each time.
bool EventDecoder::decode_operations(EventColumns& events, std::size_t count,
                                     unsigned address_shift) {
  sizes_.clear();
  if (anchors_.size() < count) anchors_.resize(count);
  std::size_t anchors = 0;
  std::uint64_t last_address = 0;
  std::uint32_t last_stream = 0;
  InBytes stacks = column(EventColumn::stack);
  InBytes distances = column(EventColumn::distance);
  InBytes addresses = column(EventColumn::address);
  InBytes sizes = column(EventColumn::size);
  const std::vector<std::uint32_t>& streams = definitions_.streams();
  IdWalk walk(definitions_.stacks().size());
  const auto take_size = [&] {
    const std::uint64_t row = sizes.below(sizes_.size() + 1);
    if (row < sizes_.size()) return sizes_[row];
    return sizes_.emplace_back(sizes.varint());
  };
  Event event;
  std::uint32_t row = 0;
  for (const std::uint8_t operation : operations_) {
    const std::uint8_t action = operation & kActionMask;
    const bool is_pair = (operation & kPair) != 0;
    const bool is_same = (operation & kSame) != 0;
    event.action = static_cast<Action>(action);
    if (action >= kActionCount || row + (is_pair ? 2U : 1U) > count) return false;
    if (is_pair && event.action != Action::free_requested) return false;
    if ((operation & kByReference) != 0) {
      const std::uint64_t distance = distances.varint();
      if (distance == 0 || distance > anchors) return false;
      const std::uint32_t anchor = anchors_[anchors - distance];
      event.address = events.address[anchor];
      event.stream = events.stream[anchor];
      event.size_bytes = is_same ? events.size_bytes[anchor] : take_size();
      if (event.action != Action::free_requested && event.action != Action::free_completed)
        anchors_[anchors++] = row;
    } else {
      anchors_[anchors++] = row;
      last_address += static_cast<std::uint64_t>(addresses.signed_varint());
      event.address = last_address << address_shift;
      event.size_bytes = take_size();
      if (!is_same)
        last_stream = static_cast<std::uint32_t>(column(EventColumn::stream).below(streams.size()));
      // Also covers the case where no stream was defined at all.
      if (last_stream >= streams.size()) return false;
      event.stream = streams[last_stream];
    }
    if ((operation & kSameStack) == 0) {
      const std::uint64_t code = stacks.varint();
      std::size_t stack = 0;
      if (code != 0 && !walk.take(code, stack)) return false;
      event.stack = code == 0 ? StackId() : definitions_.stacks()[stack];
    }
    push_place(events, event);
    ++row;
    if (!is_pair) continue;
    event.action = Action::free_completed;
    push_place(events, event);
    ++row;
  }
  column(EventColumn::operation) = InBytes();
  column(EventColumn::stack) = stacks;
  column(EventColumn::distance) = distances;
  column(EventColumn::address) = addresses;
  column(EventColumn::size) = sizes;
  return row == count && stacks.ok();
}

std::uint64_t EventDecoder::rest_of_time_step(std::uint64_t low_bits) {
  std::uint64_t step = low_bits & 0x7F;
  unsigned shift = 7;
  for (const EventColumn plane : {EventColumn::time_middle, EventColumn::time_high}) {
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
  InBytes low = column(EventColumn::time_low);
  InBytes pair = column(EventColumn::pair_time);
  auto time = static_cast<std::uint64_t>(first_ns);
  const auto take_step = [&] {
    const std::uint64_t bits = low.byte();
    return bits < 0x80 ? bits : rest_of_time_step(bits);
  };
  const auto push = [&](bool is_second) {
    if (mode == 2 && has_time.byte() == 0) {
      events.time_ns.push_unchecked(kUnknownTime);
      return;
    }
    const std::uint64_t step = is_second ? pair.varint() : take_step();
    time += static_cast<std::uint64_t>(unzigzag(step)) * static_cast<std::uint64_t>(unit_ns);
    events.time_ns.push_unchecked(static_cast<std::int64_t>(time));
  };
  for (const std::uint8_t operation : operations_) {
    push(false);
    if ((operation & kPair) != 0) push(true);
  }
  column(EventColumn::time_low) = low;
  column(EventColumn::pair_time) = pair;
  return true;
}

// Modules are named later, if at all: any number below the limit is valid.
bool EventDecoder::decode_modules(Column<std::uint32_t>& modules, std::size_t count) {
  InBytes bytes = column(EventColumn::module);
  if (bytes.left() == 0) return true;
  IdWalk walk(kMaxModules);
  modules.reserve(count);
  for (std::size_t event = 0; event < count; ++event) {
    const std::uint64_t code = bytes.varint();
    std::size_t number = 0;
    if (code != 0 && !walk.take(code, number)) return false;
    modules.push_unchecked(code == 0 ? kNoModule : static_cast<std::uint32_t>(number));
  }
  column(EventColumn::module) = bytes;
  return bytes.ok();
}

template <typename T>
bool EventDecoder::decode_optional(EventColumn which, Column<T>& values, std::size_t count,
                                   const std::vector<T>& known, T none) {
  InBytes bytes = column(which);
  if (bytes.left() == 0) return true;
  IdWalk walk(known.size());
  values.reserve(count);
  for (std::size_t event = 0; event < count; ++event) {
    const std::uint64_t code = bytes.varint();
    std::size_t row = 0;
    if (code != 0 && !walk.take(code, row)) return false;
    values.push_unchecked(code == 0 ? none : known[row]);
  }
  column(which) = bytes;
  return bytes.ok();
}

}  // namespace gpumemprof::trace
