// Reads an event's dict in one pass where it has the form that Python's pickle gives it:
//
//   EMPTY_DICT MEMOIZE MARK (key value)* SETITEMS
//
// with keys from the memo, and values that are integers, short texts, texts from the memo, or a
// list of frames from the memo. Nearly every event of a real file has that form; the first of each
// kind, and everything unusual, goes through the machine. Both paths must produce the same event:
// the tests compare them.
#include <cstring>

#include "ingest/pickle/opcode.h"
#include "ingest/snapshot_records.h"

namespace gpumemprof {

using pickle::Opcode;
using pickle::Tag;
using pickle::Value;

class SnapshotRecords::EventShortcut {
 public:
  EventShortcut(SnapshotRecords& records, pickle::Memo& memo, const std::uint8_t* start,
                const std::uint8_t* end)
      : records_(records), memo_(memo), start_(start), at_(start + 3), end_(end) {}

  Shortcut run() {
    std::size_t position = 0;
    while (has_room() && !is(Opcode::setitems)) {
      if (position == kMostKeys) return {};
      const Field field = read_key(records_.expected_keys_[position++]);
      if (field == Field::unknown || !has_room()) return {};
      const Value value = read_value();
      if (value.is(Tag::absent)) return {};
      records_.fields_[static_cast<std::size_t>(field)] = value;
      present_ |= bit(field);
    }
    if (!has_room() || (present_ & bit(Field::action)) == 0) return {};
    const Value event = records_.make_event(present_);
    memo_.push(event);
    for (std::size_t index = 0; index < stored_count_; ++index) memo_.push(stored_[index]);
    return {static_cast<std::size_t>(at_ + 1 - start_), event};
  }

 private:
  static constexpr std::ptrdiff_t kRoom = 32;  // more than any single step below reads
  static constexpr std::size_t kMostStored = 8;
  static constexpr std::size_t kMostFrames = 128;

  [[nodiscard]] bool has_room() const { return end_ - at_ >= kRoom; }
  [[nodiscard]] bool is(Opcode opcode) const { return *at_ == static_cast<std::uint8_t>(opcode); }

  template <typename T>
  [[nodiscard]] T load(std::ptrdiff_t offset) const {
    T value;
    std::memcpy(&value, at_ + offset, sizeof(value));
    return value;
  }

  // Stored only once the whole dict is read: until then the memo must stay unchanged.
  bool store(Value value) {
    if (stored_count_ == kMostStored) return false;
    stored_[stored_count_++] = value;
    return true;
  }

  // How far to advance is decided by branches, which the processor predicts, and not by arithmetic
  // on what was read, which it would have to wait for.
  Value get() {
    if (is(Opcode::long_binget)) {
      at_ += 5;
      return memo_.get(load<std::uint32_t>(-4));
    }
    if (!is(Opcode::binget)) return {};
    at_ += 2;
    return memo_.get(at_[-1]);
  }

  // The same keys come in the same order in every event, as the same bytes.
  Field read_key(ExpectedKey& expected) {
    constexpr std::uint64_t kLongKey = 0xFF'FFFF'FFFFULL;
    if ((load<std::uint64_t>(0) & expected.mask) == expected.bytes && expected.mask != 0) {
      at_ += expected.mask == kLongKey ? 5 : 2;
      return expected.field;
    }
    const std::uint64_t mask = is(Opcode::long_binget) ? kLongKey : 0xFFFF;
    const std::uint64_t bytes = load<std::uint64_t>(0) & mask;
    const Value key = get();
    if (!key.is(Tag::text) || key.row() >= records_.field_of_text_.size()) return Field::unknown;
    expected = {bytes, mask, records_.field_of_text_[key.row()]};
    return expected.field;
  }

  Value read_value() {
    switch (static_cast<Opcode>(*at_)) {
      case Opcode::binget:
      case Opcode::long_binget:
        return get();
      case Opcode::binint1:
        return is_pair() ? pair() : integer(at_[1], 2);
      case Opcode::binint2:
        return integer(load<std::uint16_t>(1), 3);
      case Opcode::binint:
        return integer(load<std::int32_t>(1), 5);
      case Opcode::long1: {
        const unsigned length = at_[1];
        if (length == 6) return integer(load<std::int64_t>(2) << 16 >> 16, 8);  // an address
        if (length == 7) return integer(load<std::int64_t>(2) << 8 >> 8, 9);    // a time
        if (length == 0 || length > 7) return {};
        const unsigned unused = 64 - 8 * length;
        return integer(static_cast<std::int64_t>(load<std::uint64_t>(2) << unused) >> unused,
                       2 + length);
      }
      case Opcode::short_binunicode:
        return short_text();
      case Opcode::empty_list:
        return at_[1] == static_cast<std::uint8_t>(Opcode::memoize) ? frames() : Value();
      default:
        return {};
    }
  }

  Value integer(std::int64_t number, std::size_t length) {
    at_ += length;
    return Value::integer(number);
  }

  // A pool id, as written by torch 2.12 and later: a tuple of two small numbers.
  [[nodiscard]] bool is_pair() const {
    return at_[2] == static_cast<std::uint8_t>(Opcode::binint1) &&
           at_[4] == static_cast<std::uint8_t>(Opcode::tuple2) &&
           at_[5] == static_cast<std::uint8_t>(Opcode::memoize);
  }
  Value pair() {
    const Value ids(Tag::int_pair, std::uint64_t{at_[1]} << 28 | at_[3]);
    at_ += 6;
    return store(ids) ? ids : Value();
  }

  // "N/A" and "" appear in every event; other texts are left to the machine.
  Value short_text() {
    const bool is_not_compiled = at_[1] == 3 && std::memcmp(at_ + 2, "N/A", 3) == 0;
    const bool is_empty = at_[1] == 0;
    const std::size_t length = std::size_t{2} + at_[1];
    if ((!is_not_compiled && !is_empty) ||
        at_[length] != static_cast<std::uint8_t>(Opcode::memoize))
      return {};
    const Value text(Tag::text, (is_empty ? records_.empty_ : records_.not_compiled_).index);
    at_ += length + 1;
    return store(text) ? text : Value();
  }

  Value frames() {
    at_ += 2;
    if (!is(Opcode::mark)) {
      const Value list = records_.heap_.new_list();
      return store(list) ? list : Value();
    }
    ++at_;
    // The same stack has the same bytes: a list seen before is compared, not read.
    KnownFrames& known =
        records_.known_opcodes_[(load<std::uint64_t>(1) * 0x9E3779B97F4A7C15ULL) >> 52];
    const auto left = static_cast<std::size_t>(end_ - at_);
    if (!known.opcodes.empty() && known.opcodes.size() + kRoom <= left &&
        std::memcmp(at_, known.opcodes.data(), known.opcodes.size()) == 0) {
      at_ += known.opcodes.size();
      return store(known.stack) ? known.stack : Value();
    }
    const std::uint8_t* first = at_;
    std::array<Value, kMostFrames> frames;
    std::size_t count = 0;
    while (has_room() && !is(Opcode::appends)) {
      const Value frame = get();
      if (!frame.is(Tag::frame) || count == kMostFrames) return {};
      frames[count++] = frame;
    }
    if (!has_room() || count == 0) return {};
    ++at_;
    const Value stack = records_.make_stack({frames.data(), count});
    known.opcodes.assign(first, at_);
    known.stack = stack;
    return store(stack) ? stack : Value();
  }

  SnapshotRecords& records_;
  pickle::Memo& memo_;
  const std::uint8_t* start_;
  const std::uint8_t* at_;
  const std::uint8_t* end_;
  std::uint32_t present_ = 0;
  std::array<Value, kMostStored> stored_;
  std::size_t stored_count_ = 0;
};

SnapshotRecords::Shortcut SnapshotRecords::read_record(const std::uint8_t* start,
                                                       const std::uint8_t* end,
                                                       pickle::Memo& memo) {
  // What was learned from earlier bytes holds only while memo entries keep their values; no real
  // pickle changes one.
  if (memo.overwrites() != 0) return {};
  return EventShortcut(*this, memo, start, end).run();
}

}  // namespace gpumemprof
