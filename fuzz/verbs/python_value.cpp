#include "verbs/python_value.h"

#include <algorithm>
#include <bit>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>

namespace gpumemprof::fuzz {
namespace {

[[noreturn]] void give_up(const char* what, unsigned code) {
  std::fprintf(stderr, "a seed of the fuzzer has a pickle with %s (%u)\n", what, code);
  std::abort();
}

class Reader {
 public:
  explicit Reader(std::span<const std::uint8_t> bytes) : bytes_(bytes) {}

  PythonValue run() {
    for (;;) {
      const std::uint8_t opcode = take();
      if (opcode == '.') return pop();
      if (!atom(opcode) && !container(opcode) && !memory(opcode)) give_up("an opcode", opcode);
    }
  }

 private:
  std::uint8_t take() { return bytes_[at_++]; }
  std::uint64_t fixed(unsigned count) {
    std::uint64_t value = 0;
    for (unsigned byte = 0; byte < count; ++byte) value |= std::uint64_t{take()} << (8 * byte);
    return value;
  }
  std::string text(std::size_t length) {
    const auto* start = reinterpret_cast<const char*>(bytes_.data() + at_);
    at_ += length;
    return {start, length};
  }
  PythonValue pop() {
    PythonValue top = std::move(stack_.back());
    stack_.pop_back();
    return top;
  }
  void push(PythonValue value) { stack_.push_back(std::move(value)); }
  void push_signed(std::int64_t value) {
    const auto bits = static_cast<std::uint64_t>(value);
    push({PythonValue::Integer{value < 0 ? 0 - bits : bits, value < 0, 0}});
  }

  bool atom(std::uint8_t opcode) {
    switch (opcode) {
      case 0x80:  // PROTO
        take();
        return true;
      case 0x95:  // FRAME
        fixed(8);
        return true;
      case 'N':
        push({PythonValue::None{}});
        return true;
      case 0x88:
      case 0x89:
        push({opcode == 0x88});
        return true;
      case 'K':
        push_signed(static_cast<std::int64_t>(fixed(1)));
        return true;
      case 'M':
        push_signed(static_cast<std::int64_t>(fixed(2)));
        return true;
      case 'J':
        push_signed(static_cast<std::int32_t>(fixed(4)));
        return true;
      case 0x8a: {  // LONG1
        const unsigned count = take();
        if (count > 8) {
          // Only a zero byte that keeps the sign positive.
          const std::uint64_t value = fixed(8);
          fixed(count - 8);
          push(PythonValue::of(value));
          return true;
        }
        const std::uint64_t value = fixed(count);
        const unsigned unused = 64 - 8 * count;
        push_signed(count == 0 ? 0 : static_cast<std::int64_t>(value << unused) >> unused);
        return true;
      }
      case 'G': {
        const std::uint64_t bits = fixed(8);
        std::uint64_t swapped = 0;
        for (int byte = 0; byte < 8; ++byte) swapped = swapped << 8 | (bits >> (8 * byte) & 0xff);
        push({std::bit_cast<double>(swapped)});
        return true;
      }
      case 'X':
        push(PythonValue::of(text(fixed(4))));
        return true;
      case 0x8c:
        push(PythonValue::of(text(fixed(1))));
        return true;
      default:
        return false;
    }
  }

  std::vector<PythonValue> above_mark() {
    const auto first = stack_.begin() + static_cast<std::ptrdiff_t>(marks_.back());
    marks_.pop_back();
    std::vector<PythonValue> items(std::make_move_iterator(first),
                                   std::make_move_iterator(stack_.end()));
    stack_.erase(first, stack_.end());
    return items;
  }
  void set(std::vector<PythonValue> items) {
    auto& dict = std::get<PythonValue::Dict>(stack_.back().data);
    for (std::size_t index = 0; index + 1 < items.size(); index += 2)
      dict.emplace_back(std::move(items[index]), std::move(items[index + 1]));
  }
  void tuple(std::size_t count) {
    PythonValue::Tuple made;
    for (std::size_t index = 0; index < count; ++index) made.items.push_back(pop());
    std::reverse(made.items.begin(), made.items.end());
    push({std::move(made)});
  }

  bool container(std::uint8_t opcode) {
    switch (opcode) {
      case '(':
        marks_.push_back(stack_.size());
        return true;
      case ']':
        push({PythonValue::List{}});
        return true;
      case '}':
        push({PythonValue::Dict{}});
        return true;
      case ')':
        push({PythonValue::Tuple{}});
        return true;
      case 0x85:
      case 0x86:
      case 0x87:
        tuple(opcode - 0x84U);
        return true;
      case 't':
        push({PythonValue::Tuple{above_mark()}});
        return true;
      case 'a': {
        PythonValue item = pop();
        std::get<PythonValue::List>(stack_.back().data).push_back(std::move(item));
        return true;
      }
      case 'e': {
        std::vector<PythonValue> items = above_mark();
        auto& list = std::get<PythonValue::List>(stack_.back().data);
        for (PythonValue& item : items) list.push_back(std::move(item));
        return true;
      }
      case 's': {
        PythonValue item = pop();
        PythonValue key = pop();
        std::vector<PythonValue> items;
        items.push_back(std::move(key));
        items.push_back(std::move(item));
        set(std::move(items));
        return true;
      }
      case 'u':
        set(above_mark());
        return true;
      default:
        return false;
    }
  }

  // Seeds are written without sharing anything but text.
  bool memory(std::uint8_t opcode) {
    switch (opcode) {
      case 'q':
        memo_[fixed(1)] = stack_.back();
        return true;
      case 'r':
        memo_[fixed(4)] = stack_.back();
        return true;
      case 0x94:
        memo_.try_emplace(memo_.size(), stack_.back());
        return true;
      case 'h':
        push(memo_.at(fixed(1)));
        return true;
      case 'j':
        push(memo_.at(fixed(4)));
        return true;
      default:
        return false;
    }
  }

  std::span<const std::uint8_t> bytes_;
  std::size_t at_ = 0;
  std::vector<PythonValue> stack_;
  std::vector<std::size_t> marks_;
  std::map<std::uint64_t, PythonValue> memo_;
};

// Protocol 4, with repeated text taken from the memo, as Python writes it.
class Writer {
 public:
  std::vector<std::uint8_t> run(const PythonValue& value) {
    out_ = {0x80, 4};
    put(value);
    out_.push_back('.');
    return std::move(out_);
  }

 private:
  void fixed(std::uint64_t value, unsigned bytes) {
    for (unsigned byte = 0; byte < bytes; ++byte)
      out_.push_back(static_cast<std::uint8_t>(value >> (8 * byte)));
  }

  void put(const PythonValue& value) {
    std::visit([this](const auto& data) { put_data(data); }, value.data);
  }
  void put_data(const PythonValue::None& /*none*/) { out_.push_back('N'); }
  void put_data(bool value) { out_.push_back(value ? 0x88 : 0x89); }
  void put_data(const PythonValue::Integer& number) {
    if (!number.is_negative && number.shift == 0 && number.magnitude < 0x7fffffff) {
      out_.push_back('J');
      fixed(number.magnitude, 4);
      return;
    }
    // Two's complement, with room for the sign.
    const unsigned zeros = number.shift / 8;
    out_.push_back(0x8a);
    out_.push_back(static_cast<std::uint8_t>(zeros + 9));
    fixed(0, zeros);
    const std::uint64_t bits = number.is_negative ? 0 - number.magnitude : number.magnitude;
    for (unsigned byte = 0; byte < 8; ++byte)
      out_.push_back(static_cast<std::uint8_t>(bits >> (8 * byte)));
    out_.push_back(number.is_negative && number.magnitude != 0 ? 0xff : 0);
  }
  void put_data(double value) {
    out_.push_back('G');
    const auto bits = std::bit_cast<std::uint64_t>(value);
    for (int byte = 7; byte >= 0; --byte)
      out_.push_back(static_cast<std::uint8_t>(bits >> (8 * byte)));
  }
  void put_data(const std::string& text) {
    const auto [found, is_new] = memo_.try_emplace(text, memo_.size());
    if (!is_new) {
      out_.push_back('j');
      fixed(found->second, 4);
      return;
    }
    out_.push_back('X');
    fixed(text.size(), 4);
    out_.insert(out_.end(), text.begin(), text.end());
    out_.push_back(0x94);
  }
  void put_data(const PythonValue::List& list) {
    out_.push_back(']');
    out_.push_back('(');
    for (const PythonValue& item : list) put(item);
    out_.push_back('e');
  }
  void put_data(const PythonValue::Tuple& tuple) {
    out_.push_back('(');
    for (const PythonValue& item : tuple.items) put(item);
    out_.push_back('t');
  }
  void put_data(const PythonValue::Dict& dict) {
    out_.push_back('}');
    out_.push_back('(');
    for (const auto& [key, value] : dict) {
      put(key);
      put(value);
    }
    out_.push_back('u');
  }

  std::vector<std::uint8_t> out_;
  std::map<std::string, std::size_t> memo_;
};

}  // namespace

PythonValue* PythonValue::find(std::string_view key) {
  auto* dict = std::get_if<Dict>(&data);
  if (dict == nullptr) return nullptr;
  for (auto& [name, value] : *dict) {
    const auto* text = std::get_if<std::string>(&name.data);
    if (text != nullptr && *text == key) return &value;
  }
  return nullptr;
}

PythonValue::List* PythonValue::list(std::string_view key) {
  PythonValue* value = find(key);
  return value == nullptr ? nullptr : std::get_if<List>(&value->data);
}

PythonValue read_pickle(std::span<const std::uint8_t> bytes) { return Reader(bytes).run(); }

std::vector<std::uint8_t> write_pickle(const PythonValue& value) { return Writer().run(value); }

}  // namespace gpumemprof::fuzz
