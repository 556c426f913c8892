#include "ingest/pickle/machine.h"

#include <fmt/core.h>

#include <bit>
#include <cstring>

namespace gpumemprof::pickle {
namespace {

// No opcode with its fixed operand is longer; LONG1 with eight bytes is the longest one read in one
// step.
constexpr std::ptrdiff_t kLongestStep = 16;

constexpr std::uint8_t kShortText = 7;

// Python's pickle appends at most this many items at a time, and items one by one in protocol 0.
constexpr std::size_t kFullBatch = 1000;

// No record has this many fields; a larger dict need not be inspected each time it is referenced.
constexpr std::size_t kMostFields = 64;

template <typename T>
T load(const std::uint8_t* bytes) {
  T value;
  std::memcpy(&value, bytes, sizeof(value));
  return value;
}

}  // namespace

Result<Outcome> Machine::run() {
  at_ = window_.begin();
  if (refill()) execute();
  if (error_) return *error_;
  if (damage_) unwind();
  return Outcome{root_, damage_};
}

bool Machine::refill() {
  if (!window_.at_end_of_source()) make_available(kLongestStep);
  if (error_) return false;
  const auto left = static_cast<std::size_t>(window_.end() - at_);
  if (left == 0 || left < 1 + operand_bytes(static_cast<Opcode>(*at_))) {
    damaged("the file is truncated");
    return false;
  }
  return true;
}

// Reads on until `bytes` bytes from at_ are in the window; false where the file ends first, or must
// be refused.
bool Machine::make_available(std::uint64_t bytes) {
  if (static_cast<std::uint64_t>(window_.end() - at_) < bytes || window_.begin() == window_.end()) {
    const Status advanced = window_.advance(at_, bytes);
    at_ = window_.begin();
    if (!advanced) {
      error_ = advanced.error();
      return false;
    }
    // An opcode is at least one byte and pushes at most one value, so pushing needs no check.
    const auto opcodes = static_cast<std::size_t>(window_.end() - window_.begin());
    stack_.reserve(stack_.size() + opcodes + 1);
    marks_.reserve(marks_.size() + opcodes + 1);
    if (memory_bytes() > memory_limit_bytes_) {
      error_ = Error{ErrorCode::bad_input,
                     fmt::format("reading it needs more than {} MiB", memory_limit_bytes_ >> 20),
                     fmt::format("byte {}", window_.offset_of(at_)),
                     "no real snapshot of this size does; if you trust it, raise the limit: "
                     "GPUMEMPROF_MAX_MEMORY=8GiB"};
      return false;
    }
  }
  return static_cast<std::uint64_t>(window_.end() - at_) >= bytes;
}

std::size_t Machine::memory_bytes() const {
  return stack_.size() * sizeof(Value) + marks_.size() * sizeof(std::size_t) +
         memo_.memory_bytes() + heap_.memory_bytes() + builder_.memory_bytes();
}

void Machine::execute() {
  // The loop keeps its position and the top of the stack in registers; members are updated around
  // calls.
  const std::uint8_t* p = at_;
  const std::uint8_t* safe_end = window_.end() - kLongestStep;
  Value* top = stack_.end();
  const auto push = [&](Value value, std::ptrdiff_t length) {
    *top++ = value;
    p += length;
  };
  const auto leave = [&] {
    at_ = p;
    stack_.truncate(static_cast<std::size_t>(top - stack_.data()));
  };
  const auto enter = [&] {
    p = at_;
    top = stack_.end();
    safe_end = window_.end() - kLongestStep;
  };
  for (;;) {
    if (p > safe_end) [[unlikely]] {
      leave();
      if (!refill()) return;
      enter();
    }
    const auto opcode = static_cast<Opcode>(*p);
    bool is_done = true;
    switch (opcode) {
      case Opcode::mark:
        marks_.push_unchecked(static_cast<std::size_t>(top - stack_.data()));
        ++p;
        break;
      case Opcode::binget:
      case Opcode::long_binget:
        // Keys, and the frames of a stack, come in runs: continuing here saves a branch
        // misprediction each.
        do {
          const std::size_t is_long = *p == static_cast<std::uint8_t>(Opcode::long_binget) ? 1 : 0;
          const Value value =
              memo_.get(load<std::uint32_t>(p + 1) & (is_long != 0 ? 0xFFFFFFFFU : 0xFFU));
          is_done = !value.is(Tag::absent);
          if (!is_done) break;
          *top++ = value;
          p += 2 + 3 * is_long;
        } while (p <= safe_end && (*p == static_cast<std::uint8_t>(Opcode::long_binget) ||
                                   *p == static_cast<std::uint8_t>(Opcode::binget)));
        break;
      case Opcode::memoize:
        is_done = top != stack_.data();
        if (is_done) {
          memo_.push(top[-1]);
          ++p;
        }
        break;
      case Opcode::binint1:
        push(Value::integer(p[1]), 2);
        break;
      case Opcode::binint2:
        push(Value::integer(load<std::uint16_t>(p + 1)), 3);
        break;
      case Opcode::binint:
        push(Value::integer(load<std::int32_t>(p + 1)), 5);
        break;
      case Opcode::long1: {
        const std::uint8_t length = p[1];
        is_done = length != 0 && length <= 8;
        if (!is_done) break;
        const unsigned unused = 64 - 8 * unsigned{length};
        const auto number =
            static_cast<std::int64_t>(load<std::uint64_t>(p + 2) << unused) >> unused;
        is_done = Value::fits_inline(number) && p + 2 + length <= window_.end();
        if (is_done) push(Value::integer(number), 2 + length);
        break;
      }
      case Opcode::short_binunicode: {
        const std::uint8_t length = p[1];
        is_done = length <= kShortText && p + 2 + length <= window_.end();
        if (is_done) push(short_text(load<std::uint64_t>(p + 2), length), 2 + length);
        break;
      }
      case Opcode::empty_dict: {
        RecordBuilder::Shortcut record;
        if (p[1] == static_cast<std::uint8_t>(Opcode::memoize) &&
            p[2] == static_cast<std::uint8_t>(Opcode::mark)) {
          record = builder_.read_record(p, window_.end(), memo_);
        }
        if (record.bytes != 0) {
          push(record.value, static_cast<std::ptrdiff_t>(record.bytes));
        } else {
          push(heap_.new_dict(), 1);
        }
        break;
      }
      case Opcode::empty_list:
        push(heap_.new_list(), 1);
        break;
      default:
        is_done = false;
        break;
    }
    if (!is_done) {
      leave();
      if (step(static_cast<Opcode>(*p)) == Step::stop) return;
      enter();
    }
  }
}

// Runs one opcode that the loop does not handle itself: found at at_, which is advanced past it.
Machine::Step Machine::step(Opcode opcode) {
  if (opcode == Opcode::setitems || opcode == Opcode::appends) {
    const std::optional<std::size_t> first = take_mark();
    if (!first) return damaged("a list or dict is filled without a mark");
    const Step step = opcode == Opcode::setitems ? set_items(*first) : append_items(*first);
    ++at_;
    return step;
  }
  return rare(opcode);
}

// Short texts repeat in every event: they are looked up by their bytes alone.
Value Machine::short_text(std::uint64_t bytes, std::uint8_t length) {
  bytes &= (std::uint64_t{1} << (8 * length)) - 1;
  const std::uint64_t key = bytes | std::uint64_t{length} << 56;
  ShortText& known = short_texts_[(key * 0x9E3779B97F4A7C15ULL) >> 58];
  if (known.key != key || known.value.is(Tag::absent)) {
    known = {key, text_value({reinterpret_cast<const char*>(&bytes), length})};
  }
  return known.value;
}

Machine::Step Machine::get(std::uint64_t place) {
  const Value value = memo_.get(place);
  if (value.is(Tag::absent))
    return damaged(fmt::format("memo place {} is used but was never stored", place));
  stack_.push_unchecked(value);
  return Step::next;
}

Machine::Step Machine::put(std::uint64_t place) {
  if (!has(1)) return damaged("a memo place is stored with nothing on the stack");
  memo_.put(place, stack_.back());
  return Step::next;
}

std::optional<std::size_t> Machine::take_mark() {
  if (marks_.empty()) return std::nullopt;
  const std::size_t first = marks_.back();
  marks_.pop_back();
  return first;
}

Machine::Step Machine::damaged(std::string reason) {
  damage_ = Damage{window_.offset_of(at_), std::move(reason)};
  return Step::stop;
}

// A dict that was filled item by item becomes a record when it is put into another container.
Value Machine::settled(Value value) {
  value = heap_.resolve(value);
  const DictItems* items = heap_.items_of(value);
  if (items == nullptr || items->size() > kMostFields) return value;
  std::vector<Value> flat;
  for (const auto& [key, item] : *items) {
    flat.push_back(key);
    flat.push_back(heap_.resolve(item));
  }
  const Value record = builder_.make_record(flat);
  if (record.is(Tag::absent)) return value;
  heap_.take_items(value);
  heap_.dict_slot(value) = record;
  return record;
}

void Machine::append_all(Value list, std::span<const Value> items) {
  if (!list.is(Tag::list)) return;
  for (const Value item : items) heap_.append(list, settled(item));
}

void Machine::set_all(Value dict, std::span<const Value> keys_and_values) {
  if (!dict.is(Tag::dict)) return;
  for (std::size_t index = 0; index + 1 < keys_and_values.size(); index += 2) {
    heap_.set_item(dict, keys_and_values[index], settled(keys_and_values[index + 1]));
  }
}

Machine::Step Machine::append_items(std::size_t first) {
  if (first <= floor()) return damaged("items for a list, but no list");
  const std::span<const Value> items = stack_.span().subspan(first);
  Value& list = stack_[first - 1];
  // A lone item or a full batch may be followed by more: such a list becomes a stack when an event
  // needs it.
  const bool is_complete = items.size() > 1 && items.size() != kFullBatch;
  if (is_complete && list.is(Tag::list) && heap_.is_empty_list(list)) {
    bool only_frames = true;
    for (const Value item : items) only_frames &= item.is(Tag::frame);
    if (only_frames) {
      const Value stack = builder_.make_stack(items);
      heap_.list_slot(list) = stack;
      list = stack;
      stack_.truncate(first);
      return Step::next;
    }
  }
  append_all(list, items);
  stack_.truncate(first);
  return Step::next;
}

Machine::Step Machine::set_items(std::size_t first) {
  if (first <= floor()) return damaged("items for a dict, but no dict");
  const std::span<const Value> items = stack_.span().subspan(first);
  if (items.size() % 2 != 0) return damaged("a dict key without a value");
  Value& dict = stack_[first - 1];
  if (dict.is(Tag::dict)) {
    const bool is_fresh = heap_.dict_slot(dict).is(Tag::absent);
    const Value record = is_fresh ? builder_.make_record(items) : Value();
    if (record.is(Tag::absent)) {
      set_all(dict, items);
    } else {
      heap_.dict_slot(dict) = record;
      dict = record;
    }
  }
  stack_.truncate(first);
  return Step::next;
}

Machine::Step Machine::set_one() {
  if (!has(3)) return damaged("SETITEM without a dict, a key and a value");
  const std::size_t size = stack_.size();
  set_all(stack_[size - 3], stack_.span().subspan(size - 2));
  stack_.truncate(size - 2);
  return Step::next;
}

Machine::Step Machine::tuple_of(std::size_t first) {
  for (std::size_t index = first; index < stack_.size(); ++index)
    stack_[index] = settled(stack_[index]);
  const std::span<const Value> items = stack_.span().subspan(first);
  const auto is_small = [](Value value) {
    return value.is(Tag::integer) && value.number() >= 0 &&
           value.number() < (std::int64_t{1} << 28);
  };
  const bool is_pair = items.size() == 2 && is_small(items[0]) && is_small(items[1]);
  const Value tuple = is_pair ? Value(Tag::int_pair, items[0].payload() << 28 | items[1].payload())
                              : heap_.new_tuple(items);
  stack_.truncate(first);
  stack_.push_back(tuple);
  return Step::next;
}

Value Machine::text_value(std::string_view text) { return {Tag::text, builder_.text(text).index}; }

}  // namespace gpumemprof::pickle
