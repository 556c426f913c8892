// Machine: runs a pickle of plain data and executes nothing.
//
// It understands every opcode of protocols 0 to 5 that makes None, numbers, text, bytes, lists,
// tuples, dicts and sets; every opcode that could name or call code is refused. Dicts and lists of
// a shape the RecordBuilder knows become records immediately. Memory grows at most linearly with
// the bytes read, whatever lengths and memo indexes the file states, and stops at a limit.
#pragma once

#include <array>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "base/id.h"
#include "base/result.h"
#include "ingest/pickle/heap.h"
#include "ingest/pickle/memo.h"
#include "ingest/pickle/opcode.h"
#include "ingest/pickle/value.h"
#include "ingest/pickle/window.h"

namespace gpumemprof::pickle {

// Gives dicts and lists their meaning.
class RecordBuilder {
 public:
  RecordBuilder() = default;
  RecordBuilder(const RecordBuilder&) = delete;
  RecordBuilder& operator=(const RecordBuilder&) = delete;
  virtual ~RecordBuilder() = default;

  virtual StringId text(std::string_view text) = 0;
  [[nodiscard]] virtual std::string_view text_of(StringId id) const = 0;
  // key, value, key, value …; absent where the dict has no known shape and stays a dict.
  virtual Value make_record(std::span<const Value> keys_and_values) = 0;
  // A list of only frames, innermost first.
  virtual Value make_stack(std::span<const Value> frames) = 0;

  // A fast path for the dict that makes up nearly all of a file. `start` points at its EMPTY_DICT,
  // MEMOIZE and MARK. Where the builder can read the whole dict at once, it stores in the memo what
  // the opcodes would have stored; otherwise it consumes nothing and the machine continues opcode
  // by opcode.
  struct Shortcut {
    std::size_t bytes = 0;  // 0: not taken
    Value value;
  };
  virtual Shortcut read_record(const std::uint8_t* start, const std::uint8_t* end, Memo& memo) = 0;
  [[nodiscard]] virtual std::size_t memory_bytes() const = 0;
};

struct Damage {
  std::uint64_t byte_offset = 0;
  std::string reason;
};

struct Outcome {
  Value root;                    // absent where the bytes produced no value
  std::optional<Damage> damage;  // the file is cut off here; root holds what came before
};

class Machine {
 public:
  Machine(Window& window, Heap& heap, RecordBuilder& builder, std::size_t memory_limit_bytes)
      : window_(window),
        heap_(heap),
        builder_(builder),
        memory_limit_bytes_(memory_limit_bytes),
        memo_(heap) {}

  // An Error means the whole file is refused; damage is part of the outcome.
  Result<Outcome> run();

 private:
  enum class Step : std::uint8_t { next, stop };

  void execute();
  Step step(Opcode opcode);
  Step rare(Opcode opcode);
  Step on_stack(Opcode opcode, std::uint64_t operand);
  Step lines(Opcode opcode);
  Step close_mark(Opcode opcode, std::size_t first);
  Step data(Opcode opcode, std::uint64_t length, bool is_text);
  Step long_integer(std::uint64_t length);
  bool refill();
  bool make_available(std::uint64_t bytes);
  std::optional<std::string> read_line();

  [[nodiscard]] std::size_t floor() const { return marks_.empty() ? 0 : marks_.back(); }
  [[nodiscard]] bool has(std::size_t count) const { return stack_.size() >= floor() + count; }
  // The start of the items above the last mark, which is removed; nothing where there is no mark.
  std::optional<std::size_t> take_mark();

  Step damaged(std::string reason);
  Step refuse(Opcode opcode);
  [[nodiscard]] std::string described_global() const;

  Step append_items(std::size_t first);
  Step set_items(std::size_t first);
  Step set_one();
  Step tuple_of(std::size_t first);
  Value settled(Value value);
  void append_all(Value list, std::span<const Value> items);
  void set_all(Value dict, std::span<const Value> keys_and_values);
  void fill(std::size_t container, std::span<const Value> items);

  Step get(std::uint64_t place);
  Step put(std::uint64_t place);
  Value text_value(std::string_view text);
  Value short_text(std::uint64_t bytes, std::uint8_t length);
  [[nodiscard]] std::size_t memory_bytes() const;

  void unwind();
  void close_above_mark(std::size_t first);
  void close_without_marks();
  void append_top(Value list);

  Window& window_;
  Heap& heap_;
  RecordBuilder& builder_;
  std::size_t memory_limit_bytes_;

  const std::uint8_t* at_ = nullptr;  // the opcode being run
  Column<Value> stack_;
  Column<std::size_t> marks_;
  Memo memo_;
  struct ShortText {
    std::uint64_t key = 0;
    Value value;
  };
  std::array<ShortText, 64> short_texts_{};

  std::optional<Damage> damage_;
  std::optional<Error> error_;
  Value root_;
};

}  // namespace gpumemprof::pickle
