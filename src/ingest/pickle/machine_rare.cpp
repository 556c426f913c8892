// The opcodes that do not occur in every event: protocol 0's lines, long data, and everything that
// is refused.
#include <fmt/core.h>

#include <algorithm>
#include <cctype>
#include <charconv>
#include <cstring>

#include "base/utf8.h"
#include "ingest/pickle/machine.h"

namespace gpumemprof::pickle {
namespace {

constexpr std::uint64_t kLongestText = std::uint64_t{64} << 20;
constexpr std::size_t kLongestLine = std::size_t{1} << 20;
constexpr std::size_t kLongestInteger = 1024;

std::uint64_t load_length(const std::uint8_t* operand, std::size_t bytes) {
  std::uint64_t length = 0;
  std::memcpy(&length, operand, bytes);
  return length;
}

// How many hex digits follow \x, \u and \U; 0 for other characters.
std::size_t hex_digits(char kind) {
  return kind == 'x' ? 2 : kind == 'u' ? 4 : kind == 'U' ? 8 : 0;
}

// Protocol 0 writes text as Latin-1 with escapes.
std::string decode_escapes(std::string_view text, bool all_escapes) {
  std::string decoded;
  for (std::size_t index = 0; index < text.size(); ++index) {
    const char c = text[index];
    if (c != '\\' || index + 1 == text.size()) {
      append_utf8(decoded, static_cast<unsigned char>(c));
      continue;
    }
    const char kind = text[index + 1];
    const std::size_t digits = hex_digits(kind);
    std::uint32_t code_point = 0;
    if (digits != 0 && index + 2 + digits <= text.size()) {
      const char* first = text.data() + index + 2;
      if (std::from_chars(first, first + digits, code_point, 16).ptr == first + digits) {
        append_utf8(decoded, code_point);
        index += 1 + digits;
        continue;
      }
    }
    if (!all_escapes) {
      decoded += c;
      continue;
    }
    decoded += kind == 'n' ? '\n' : kind == 't' ? '\t' : kind == 'r' ? '\r' : kind;
    ++index;
  }
  return decoded;
}

std::string without_quotes(const std::string& text) {
  const bool quoted = text.size() >= 2 && text.front() == text.back() &&
                      (text.front() == '\'' || text.front() == '"');
  return quoted ? text.substr(1, text.size() - 2) : text;
}

// A decimal integer of any length; values over 64 bits are clamped to the largest that fits.
WideInteger parse_decimal(std::string_view text) {
  WideInteger number;
  if (!text.empty() && text.back() == 'L') text.remove_suffix(1);
  if (!text.empty() && text.front() == '-') {
    number.negative = true;
    text.remove_prefix(1);
  }
  if (std::from_chars(text.data(), text.data() + text.size(), number.magnitude).ec != std::errc()) {
    number.magnitude = ~std::uint64_t{0};
  }
  return number;
}

// Little-endian two's complement of any length, clamped to 64 bits of magnitude.
WideInteger parse_two_complement(std::span<const std::uint8_t> bytes) {
  WideInteger number;
  if (bytes.empty()) return number;
  number.negative = (bytes.back() & 0x80) != 0;
  std::uint64_t low = number.negative ? ~std::uint64_t{0} : 0;
  bool too_wide = false;
  for (std::size_t index = 0; index < bytes.size(); ++index) {
    if (index < 8) {
      low = (low & ~(std::uint64_t{0xff} << (8 * index))) | std::uint64_t{bytes[index]}
                                                                << (8 * index);
    } else {
      too_wide |= bytes[index] != (number.negative ? 0xff : 0);
    }
  }
  number.magnitude = too_wide ? ~std::uint64_t{0} : number.negative ? ~low + 1 : low;
  return number;
}

Value integer_value(Heap& heap, WideInteger number) {
  if (number.magnitude < (std::uint64_t{1} << 55)) {
    const auto magnitude = static_cast<std::int64_t>(number.magnitude);
    return Value::integer(number.negative ? -magnitude : magnitude);
  }
  return heap.new_wide_integer(number);
}

// " module.name" where both can be names: in a damaged file they may be anything.
std::string dotted_name(std::string_view module, std::string_view name) {
  const auto is_name = [](std::string_view text) {
    constexpr std::size_t kLongestName = 100;
    return !text.empty() && text.size() <= kLongestName &&
           std::all_of(text.begin(), text.end(), [](char c) { return c > ' ' && c <= '~'; });
  };
  return is_name(module) && is_name(name) ? fmt::format(" {}.{}", module, name) : "";
}

bool is_dotted_identifier(std::string_view text) {
  return !text.empty() && std::all_of(text.begin(), text.end(), [](char c) {
    return c == '.' || c == '_' || std::isalnum(static_cast<unsigned char>(c)) != 0;
  });
}

std::string plural_bytes(std::uint64_t count) {
  return fmt::format("{} byte{}", count, count == 1 ? "" : "s");
}

}  // namespace

Machine::Step Machine::rare(Opcode opcode) {
  const std::size_t fixed = operand_bytes(opcode);
  const std::uint64_t length = load_length(at_ + 1, fixed);
  switch (opcode) {
    case Opcode::short_binunicode:
    case Opcode::binunicode:
    case Opcode::binunicode8:
    case Opcode::short_binstring:
    case Opcode::binstring:
      return data(opcode, length, true);
    case Opcode::short_binbytes:
    case Opcode::binbytes:
    case Opcode::binbytes8:
    case Opcode::bytearray8:
      return data(opcode, length, false);
    case Opcode::long1:
    case Opcode::long4:
      return long_integer(length);
    case Opcode::int_line:
    case Opcode::long_line:
    case Opcode::float_line:
    case Opcode::string_line:
    case Opcode::unicode_line:
    case Opcode::get_line:
    case Opcode::put_line:
      return lines(opcode);
    default:
      break;
  }
  if (!refused_name(opcode).empty()) return refuse(opcode);
  const Step step = on_stack(opcode, length);
  at_ += 1 + fixed;
  return step;
}

// The opcodes whose operand, if any, has a fixed length.
Machine::Step Machine::on_stack(Opcode opcode, std::uint64_t operand) {
  switch (opcode) {
    case Opcode::proto:
      if (at_[1] > 5) return damaged(fmt::format("pickle protocol {} is newer than 5", at_[1]));
      break;
    case Opcode::frame:
      break;  // only a hint for buffering
    case Opcode::stop:
      if (!has(1)) return damaged("the pickle ends with nothing on the stack");
      root_ = settled(stack_.back());
      return Step::stop;
    case Opcode::none:
      stack_.push_unchecked(Value(Tag::none, 0));
      break;
    case Opcode::newtrue:
    case Opcode::newfalse:
      stack_.push_unchecked(Value(Tag::boolean, opcode == Opcode::newtrue ? 1 : 0));
      break;
    case Opcode::memoize:
      return damaged("MEMOIZE with nothing to store");
    case Opcode::binget:
    case Opcode::long_binget:
      return get(operand);
    case Opcode::binput:
    case Opcode::long_binput:
      return put(operand);
    case Opcode::append:
      if (!has(2)) return damaged("APPEND without a list and an item");
      return append_items(stack_.size() - 1);
    case Opcode::setitem:
      return set_one();
    case Opcode::pop:
      if (has(1)) {
        stack_.pop_back();
      } else if (!take_mark()) {
        return damaged("POP on an empty stack");
      }
      break;
    case Opcode::dup:
      if (!has(1)) return damaged("DUP on an empty stack");
      stack_.push_unchecked(stack_.back());
      break;
    case Opcode::empty_tuple:
      stack_.push_unchecked(heap_.new_tuple({}));
      break;
    case Opcode::tuple1:
    case Opcode::tuple2:
    case Opcode::tuple3: {
      const auto count =
          static_cast<std::size_t>(opcode) - static_cast<std::size_t>(Opcode::tuple1) + 1;
      if (!has(count)) return damaged("a tuple needs more items than the stack holds");
      return tuple_of(stack_.size() - count);
    }
    case Opcode::binfloat: {
      std::uint64_t bits = __builtin_bswap64(load_length(at_ + 1, 8));
      double number = 0;
      std::memcpy(&number, &bits, sizeof(number));
      stack_.push_unchecked(heap_.new_real(number));
      break;
    }
    case Opcode::empty_set:
      stack_.push_unchecked(Value(Tag::opaque, 0));
      break;
    case Opcode::tuple:
    case Opcode::list:
    case Opcode::dict:
    case Opcode::pop_mark:
    case Opcode::additems:
    case Opcode::frozenset: {
      const std::optional<std::size_t> first = take_mark();
      if (!first) return damaged("an opcode that needs a mark finds none");
      return close_mark(opcode, *first);
    }
    default:
      return damaged(fmt::format("0x{:02x} is not a pickle opcode", static_cast<unsigned>(opcode)));
  }
  return Step::next;
}

Machine::Step Machine::close_mark(Opcode opcode, std::size_t first) {
  if (opcode == Opcode::tuple) return tuple_of(first);
  const std::size_t count = stack_.size() - first;
  if (opcode == Opcode::dict && count % 2 != 0) return damaged("a dict key without a value");
  if (opcode == Opcode::list || opcode == Opcode::dict) {
    // The container goes below its items, as if it had been pushed before them.
    stack_.push_back(Value());
    for (std::size_t index = stack_.size() - 1; index > first; --index)
      stack_[index] = stack_[index - 1];
    stack_[first] = opcode == Opcode::list ? heap_.new_list() : heap_.new_dict();
    if (count == 0) return Step::next;
    return opcode == Opcode::list ? append_items(first + 1) : set_items(first + 1);
  }
  stack_.truncate(first);
  if (opcode == Opcode::frozenset) stack_.push_back(Value(Tag::opaque, 0));
  return Step::next;
}

Machine::Step Machine::data(Opcode opcode, std::uint64_t length, bool is_text) {
  const std::size_t head = 1 + operand_bytes(opcode);
  if (is_text && length <= kLongestText) {
    if (!make_available(head + length))
      return error_ ? Step::stop : damaged("the file ends inside a text");
    const auto* bytes = reinterpret_cast<const char*>(at_ + head);
    stack_.push_unchecked(text_value({bytes, static_cast<std::size_t>(length)}));
    at_ += head + length;
    return Step::next;
  }
  if (is_text) return damaged(fmt::format("a string claims a length of {}", plural_bytes(length)));
  // Bytes carry nothing we need: skip them, window by window.
  const std::uint64_t start = window_.offset_of(at_);
  at_ += head;
  while (length > 0) {
    if (!make_available(1)) {
      return error_
                 ? Step::stop
                 : damaged(fmt::format("the file ends inside data that starts at byte {}", start));
    }
    const std::uint64_t here =
        std::min<std::uint64_t>(length, static_cast<std::uint64_t>(window_.end() - at_));
    at_ += here;
    length -= here;
  }
  stack_.push_unchecked(Value(Tag::opaque, 0));
  return Step::next;
}

Machine::Step Machine::long_integer(std::uint64_t length) {
  const std::size_t head = 1 + operand_bytes(static_cast<Opcode>(*at_));
  if (length > kLongestInteger)
    return damaged(fmt::format("an integer claims a length of {}", plural_bytes(length)));
  if (!make_available(head + length))
    return error_ ? Step::stop : damaged("the file ends inside an integer");
  const std::span bytes(at_ + head, static_cast<std::size_t>(length));
  stack_.push_unchecked(integer_value(heap_, parse_two_complement(bytes)));
  at_ += head + length;
  return Step::next;
}

std::optional<std::string> Machine::read_line() {
  for (std::size_t wanted = 128;; wanted *= 2) {
    const bool whole = make_available(wanted);
    if (error_) return std::nullopt;
    const auto left = static_cast<std::size_t>(window_.end() - at_);
    const void* end = left > 1 ? std::memchr(at_ + 1, '\n', left - 1) : nullptr;
    if (end != nullptr) {
      const auto* newline = static_cast<const std::uint8_t*>(end);
      std::string line(reinterpret_cast<const char*>(at_ + 1),
                       static_cast<std::size_t>(newline - at_ - 1));
      if (!line.empty() && line.back() == '\r') line.pop_back();
      at_ = newline + 1;
      return line;
    }
    if (!whole || wanted > kLongestLine) {
      damaged(whole ? "a line that does not end" : "the file ends inside a line");
      return std::nullopt;
    }
  }
}

Machine::Step Machine::lines(Opcode opcode) {
  const std::optional<std::string> line = read_line();
  if (!line) return Step::stop;
  switch (opcode) {
    case Opcode::get_line:
      return get(parse_decimal(*line).magnitude);
    case Opcode::put_line:
      return put(parse_decimal(*line).magnitude);
    case Opcode::float_line:
      stack_.push_unchecked(heap_.new_real(std::strtod(line->c_str(), nullptr)));
      break;
    case Opcode::unicode_line:
      stack_.push_unchecked(text_value(decode_escapes(*line, false)));
      break;
    case Opcode::string_line:
      stack_.push_unchecked(text_value(decode_escapes(without_quotes(*line), true)));
      break;
    default:
      // Protocol 0 writes True and False as "I01" and "I00".
      stack_.push_unchecked(opcode == Opcode::int_line && (*line == "01" || *line == "00")
                                ? Value(Tag::boolean, *line == "01" ? 1 : 0)
                                : integer_value(heap_, parse_decimal(*line)));
  }
  return Step::next;
}

// STACK_GLOBAL takes its module and name from the stack.
std::string Machine::described_global() const {
  const Value module = stack_[stack_.size() - 2];
  const Value name = stack_.back();
  if (!module.is(Tag::text) || !name.is(Tag::text)) return "";
  return dotted_name(builder_.text_of(StringId(module.row())),
                     builder_.text_of(StringId(name.row())));
}

Machine::Step Machine::refuse(Opcode opcode) {
  const std::uint64_t offset = window_.offset_of(at_);
  std::string what(refused_name(opcode));
  if (opcode == Opcode::global || opcode == Opcode::inst) {
    const std::optional<std::string> module = read_line();
    if (module) --at_;  // read_line() treats the byte before the line as an opcode
    const std::optional<std::string> name = module ? read_line() : std::nullopt;
    // A file that begins like this is no pickle, but text that happens to start with the letter.
    const bool is_text =
        module && (!is_dotted_identifier(*module) || (name && !is_dotted_identifier(*name)));
    if (offset == 0 && is_text) return damaged(what + " without a module and a name");
    if (module && name) what += dotted_name(*module, *name);
  } else if (opcode == Opcode::stack_global && has(2)) {
    what += described_global();
  }
  damage_.reset();
  error_ = Error{ErrorCode::bad_input,
                 fmt::format("the pickle opcode {} would run code and was refused", what),
                 fmt::format("byte {}", offset),
                 "a PyTorch memory snapshot holds plain data only, so this is not one; do not load "
                 "it with pickle"};
  return Step::stop;
}

}  // namespace gpumemprof::pickle
