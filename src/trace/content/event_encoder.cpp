#include "trace/content/event_encoder.h"

#include <algorithm>
#include <bit>

#include "base/error.h"

namespace gpumemprof::trace {
namespace {

constexpr std::size_t kMaxShortVarintBytes = 5;  // for a 32-bit number, or the step between two

// Addresses share an alignment; its zero bits need not be written.
unsigned common_shift(std::span<const std::uint64_t> addresses) {
  std::uint64_t any = 0;
  for (const std::uint64_t address : addresses) any |= address;
  return any == 0 ? 0U : static_cast<unsigned>(std::countr_zero(any));
}

// The steps are multiples of this; torch's own times are in microseconds.
std::int64_t common_unit(std::span<const std::int64_t> steps) {
  for (const std::int64_t unit : {std::int64_t{1000}, std::int64_t{100}}) {
    if (std::all_of(steps.begin(), steps.end(),
                    [unit](std::int64_t step) { return step % unit == 0; }))
      return unit;
  }
  return 1;
}

// An id or none: 0 for none, otherwise one more than the zigzag-encoded step from the last id.
class IdSteps {
 public:
  std::uint8_t* put(std::uint8_t* at, std::uint32_t id) {
    if (id == StackId::kNone) {
      *at = 0;
      return at + 1;
    }
    const std::uint64_t step = zigzag(std::int64_t{id} - std::int64_t{last_});
    last_ = id;
    return put_varint(at, step + 1);
  }

 private:
  std::uint32_t last_ = 0;
};

}  // namespace

// One pass over the events; writes through raw pointers, since the columns have room for the
// longest codes.
class EventEncoder::OperationLoop {
 public:
  OperationLoop(EventEncoder& encoder, const EventColumns& events, std::size_t first,
                std::size_t count, unsigned address_shift)
      : encoder_(encoder),
        events_(events),
        row_(first),
        end_(first + count),
        shift_(address_shift),
        operation_(room(EventColumn::operation, count)),
        distance_(room(EventColumn::distance, count * kMaxShortVarintBytes)),
        address_(room(EventColumn::address, count * kMaxVarintBytes)),
        size_(room(EventColumn::size, count * (kMaxShortVarintBytes + kMaxVarintBytes))),
        stream_(room(EventColumn::stream, count * kMaxShortVarintBytes)),
        stack_(room(EventColumn::stack, count * kMaxShortVarintBytes)) {}

  void run() {
    while (row_ < end_) row_ += put_event();
    close(EventColumn::operation, operation_);
    close(EventColumn::distance, distance_);
    close(EventColumn::address, address_);
    close(EventColumn::size, size_);
    close(EventColumn::stream, stream_);
    close(EventColumn::stack, stack_);
  }

 private:
  std::uint8_t* room(EventColumn which, std::size_t bytes) {
    return encoder_.column(which).room(bytes);
  }
  void close(EventColumn which, const std::uint8_t* end) { encoder_.column(which).end_at(end); }

  // Returns how many events it consumed.
  std::size_t put_event() {
    const Action action = events_.action[row_];
    const StackId stack = events_.stack[row_];
    std::uint8_t flags = put_place(action);
    if (stack == last_stack_) {
      flags |= kSameStack;
    } else {
      stack_ = stacks_.put(stack_, stack.index);
      last_stack_ = stack;
    }
    const bool is_pair = action == Action::free_requested && next_completes_it();
    if (is_pair) flags |= kPair;
    *operation_++ = static_cast<std::uint8_t>(static_cast<std::uint8_t>(action) | flags);
    return is_pair ? 2 : 1;
  }

  [[nodiscard]] bool next_completes_it() const {
    const std::size_t next = row_ + 1;
    return next < end_ && events_.action[next] == Action::free_completed &&
           events_.address[next] == events_.address[row_] &&
           events_.size_bytes[next] == events_.size_bytes[row_] &&
           events_.stream[next] == events_.stream[row_] &&
           events_.stack[next] == events_.stack[row_];
  }

  // Address, size and stream: by reference if an anchor of this block has the address.
  std::uint8_t put_place(Action action) {
    const std::uint64_t address = events_.address[row_];
    const std::uint64_t size_bytes = events_.size_bytes[row_];
    const std::uint32_t stream = events_.stream[row_];
    if (address == FlatMap<Anchor>::kEmpty) [[unlikely]] {
      ++anchor_count_;
      return put_explicit(address, size_bytes, stream);
    }
    Anchor& anchor = encoder_.anchors_.find_or_insert(address, {0, 0, anchor_count_});
    if (anchor.ordinal == anchor_count_ || anchor.stream != stream) {
      anchor = {size_bytes, stream, anchor_count_++};
      return put_explicit(address, size_bytes, stream);
    }
    std::uint8_t flags = kByReference;
    distance_ = put_varint(distance_, anchor_count_ - anchor.ordinal);
    if (anchor.size_bytes == size_bytes) {
      flags |= kSame;
    } else {
      put_size(size_bytes);
    }
    const bool is_free = action == Action::free_requested || action == Action::free_completed;
    if (!is_free) anchor = {size_bytes, stream, anchor_count_++};
    return flags;
  }

  std::uint8_t put_explicit(std::uint64_t address, std::uint64_t size_bytes, std::uint32_t stream) {
    const std::uint64_t reduced = address >> shift_;
    address_ = put_varint(address_, zigzag(static_cast<std::int64_t>(reduced - last_address_)));
    last_address_ = reduced;
    put_size(size_bytes);
    if (stream == last_stream_) return kSame;
    stream_ = put_varint(stream_, stream);
    last_stream_ = stream;
    return 0;
  }

  // A row in the table of sizes; the row one past its end adds the size that follows.
  void put_size(std::uint64_t size_bytes) {
    if (size_bytes != FlatMap<std::uint32_t>::kEmpty) {
      const std::uint32_t row = encoder_.sizes_.find_or_insert(size_bytes, size_count_);
      size_ = put_varint(size_, row);
      if (row != size_count_) return;
    } else {
      size_ = put_varint(size_, size_count_);
    }
    ++size_count_;
    size_ = put_varint(size_, size_bytes);
  }

  EventEncoder& encoder_;
  const EventColumns& events_;
  std::size_t row_;
  std::size_t end_;
  unsigned shift_;
  std::uint8_t* operation_;
  std::uint8_t* distance_;
  std::uint8_t* address_;
  std::uint8_t* size_;
  std::uint8_t* stream_;
  std::uint8_t* stack_;
  IdSteps stacks_;
  StackId last_stack_;
  std::uint64_t last_address_ = 0;
  std::uint32_t last_stream_ = 0;
  std::uint32_t anchor_count_ = 0;
  std::uint32_t size_count_ = 0;
};

std::span<const std::span<const std::uint8_t>> EventEncoder::encode(DeviceIndex device,
                                                                    const EventColumns& events,
                                                                    std::size_t first,
                                                                    std::size_t count) {
  GMP_CHECK(count <= kMaxBlockEvents && first + count <= events.size());
  for (OutBytes& bytes : columns_) bytes.clear();
  anchors_.clear();
  sizes_.clear();
  const unsigned shift = common_shift(events.address.span().subspan(first, count));
  OperationLoop(*this, events, first, count, shift).run();
  const TimeMode time_mode = encode_times(events.time_ns.span().subspan(first, count));
  const auto id_row = [](const auto id) { return id.index; };
  encode_optional(EventColumn::compile_context, events.compile_context, first, count, id_row);
  encode_optional(EventColumn::user_metadata, events.user_metadata, first, count, id_row);
  encode_optional(EventColumn::pool, events.pool, first, count,
                  [](std::uint32_t pool) { return pool; });
  encode_optional(EventColumn::forward_stack, events.forward_stack, first, count, id_row);
  encode_optional(EventColumn::module, events.module, first, count,
                  [](std::uint32_t module) { return module; });

  head_.clear();
  head_.signed_varint(device);
  head_.varint(count);
  head_.varint(shift);
  head_.varint(static_cast<std::uint64_t>(time_mode));
  head_.signed_varint(first_time_ns_);
  head_.signed_varint(time_unit_ns_);
  parts_.assign(1, {});
  for (const OutBytes& bytes : columns_) {
    head_.varint(bytes.size());
    if (bytes.size() != 0) parts_.push_back(bytes.span());
  }
  parts_[0] = head_.span();
  return parts_;
}

EventEncoder::TimeMode EventEncoder::encode_times(std::span<const std::int64_t> times) {
  const auto known = std::find_if(times.begin(), times.end(),
                                  [](std::int64_t time) { return time != kUnknownTime; });
  first_time_ns_ = known == times.end() ? 0 : *known;
  time_unit_ns_ = 1;
  if (known == times.end()) return TimeMode::none;
  // A row without a time has a step of 0, which is not written.
  time_steps_.resize(times.size());
  std::size_t known_count = 0;
  std::uint64_t last = static_cast<std::uint64_t>(first_time_ns_);
  for (std::size_t row = 0; row < times.size(); ++row) {
    const bool is_known = times[row] != kUnknownTime;
    const std::uint64_t time = is_known ? static_cast<std::uint64_t>(times[row]) : last;
    time_steps_[row] = static_cast<std::int64_t>(time - last);
    last = time;
    known_count += is_known ? 1 : 0;
  }
  time_unit_ns_ = common_unit(time_steps_);
  if (known_count != times.size()) {
    OutBytes& has_time = column(EventColumn::has_time);
    for (const std::int64_t time : times) has_time.byte(time != kUnknownTime ? 1 : 0);
  }
  switch (time_unit_ns_) {
    case 1000:
      put_times<1000>(times);
      break;
    case 100:
      put_times<100>(times);
      break;
    default:
      put_times<1>(times);
  }
  return known_count == times.size() ? TimeMode::all : TimeMode::some;
}

template <std::int64_t kUnitNs>
void EventEncoder::put_times(std::span<const std::int64_t> times) {
  std::uint8_t* low = column(EventColumn::time_low).room(times.size());
  std::uint8_t* middle = column(EventColumn::time_middle).room(times.size());
  std::uint8_t* high = column(EventColumn::time_high).room(times.size());
  std::uint8_t* rest = column(EventColumn::time_rest).room(times.size() * kMaxVarintBytes);
  std::uint8_t* pair = column(EventColumn::pair_time).room(times.size() * kMaxVarintBytes);
  std::size_t row = 0;
  for (const std::uint8_t operation : column(EventColumn::operation).span()) {
    if (times[row] != kUnknownTime) {
      std::uint64_t step = zigzag(time_steps_[row] / kUnitNs);
      std::uint8_t** const planes[] = {&low, &middle, &high};
      std::size_t plane = 0;
      for (; plane < 3 && step >= 0x80; ++plane, step >>= 7)
        *(*planes[plane])++ = static_cast<std::uint8_t>(step | 0x80);
      if (plane < 3) {
        *(*planes[plane])++ = static_cast<std::uint8_t>(step);
      } else {
        rest = put_varint(rest, step);
      }
    }
    ++row;
    if ((operation & kPair) == 0) continue;
    if (times[row] != kUnknownTime) pair = put_varint(pair, zigzag(time_steps_[row] / kUnitNs));
    ++row;
  }
  column(EventColumn::time_low).end_at(low);
  column(EventColumn::time_middle).end_at(middle);
  column(EventColumn::time_high).end_at(high);
  column(EventColumn::time_rest).end_at(rest);
  column(EventColumn::pair_time).end_at(pair);
}

template <typename T, typename RowOf>
void EventEncoder::encode_optional(EventColumn which, const Column<T>& values, std::size_t first,
                                   std::size_t count, RowOf row_of) {
  if (values.empty()) return;
  OutBytes& bytes = column(which);
  std::uint8_t* at = bytes.room(count * kMaxShortVarintBytes);
  IdSteps ids;
  for (const T& value : values.span().subspan(first, count)) at = ids.put(at, row_of(value));
  bytes.end_at(at);
}

}  // namespace gpumemprof::trace
