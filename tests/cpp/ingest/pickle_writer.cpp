#include "ingest/pickle_writer.h"

#include <fmt/core.h>
#include <zlib.h>

#include <algorithm>
#include <cstring>
#include <stdexcept>
#include <unordered_map>

namespace gpumemprof::test {
namespace {

PyRef make(Py::Kind kind) {
  auto object = std::make_shared<Py>();
  object->kind = kind;
  return object;
}

class Writer {
 public:
  Writer(int protocol, PickleStyle style) : protocol_(protocol), style_(style) {}

  std::string run(const Py& object) {
    if (protocol_ >= 2) out_ += {'\x80', static_cast<char>(protocol_)};
    save(object);
    out_ += '.';
    if (protocol_ < 4) return out_;
    // One frame for everything; real ones are cut at 64 KiB, which no reader may depend on.
    std::string framed = out_.substr(0, 2) + '\x95';
    append_number(framed, out_.size() - 2, 8);
    return framed + out_.substr(2);
  }

 private:
  static void append_number(std::string& out, std::uint64_t number, std::size_t bytes) {
    for (std::size_t index = 0; index < bytes; ++index)
      out += static_cast<char>(number >> (8 * index));
  }
  void put(char opcode, std::uint64_t operand, std::size_t bytes) {
    out_ += opcode;
    append_number(out_, operand, bytes);
  }

  void memoize(const Py& object) {
    const std::size_t place = memo_.size();
    memo_[&object] = place;
    if (protocol_ >= 4) {
      out_ += '\x94';
    } else if (protocol_ == 0) {
      out_ += fmt::format("p{}\n", place);
    } else if (place < 256) {
      put('q', place, 1);
    } else {
      put('r', place, 4);
    }
  }
  bool fetch(const Py& object) {
    const auto known = memo_.find(&object);
    if (known == memo_.end()) return false;
    if (protocol_ == 0) {
      out_ += fmt::format("g{}\n", known->second);
    } else if (known->second < 256) {
      put('h', known->second, 1);
    } else {
      put('j', known->second, 4);
    }
    return true;
  }

  void save(const Py& object) {
    switch (object.kind) {
      case Py::Kind::none:
        out_ += 'N';
        break;
      case Py::Kind::boolean:
        out_ += protocol_ >= 2 ? (object.is_negative ? "\x88" : "\x89")
                               : (object.is_negative ? "I01\n" : "I00\n");
        break;
      case Py::Kind::integer:
        save_integer(object);
        break;
      case Py::Kind::real:
        save_real(object.number);
        break;
      default:
        if (!fetch(object)) save_object(object);
    }
  }

  void save_integer(const Py& object) {
    const std::uint64_t limit = std::uint64_t{1} << 31;
    const bool fits = object.is_negative ? object.magnitude <= limit : object.magnitude < limit;
    const std::string decimal =
        fmt::format("{}{}", object.is_negative ? "-" : "", object.magnitude);
    const std::uint64_t bits = object.is_negative ? ~object.magnitude + 1 : object.magnitude;
    if (protocol_ == 0) {
      out_ += fits ? fmt::format("I{}\n", decimal) : fmt::format("L{}L\n", decimal);
    } else if (fits && !object.is_negative && object.magnitude < 256) {
      put('K', bits, 1);
    } else if (fits && !object.is_negative && object.magnitude < 65536) {
      put('M', bits, 2);
    } else if (fits) {
      put('J', bits, 4);
    } else if (protocol_ == 1) {
      out_ += fmt::format("L{}L\n", decimal);
    } else {
      save_long(object, bits);
    }
  }
  void save_long(const Py& object, std::uint64_t bits) {
    std::size_t bytes = 8;
    const bool has_sign_bit = (bits >> 63) != 0;
    if (style_ == PickleStyle::python) {
      // As few bytes as the number and its sign need.
      for (bytes = 1; bytes < 8; ++bytes) {
        const std::uint64_t rest = bits >> (8 * bytes - 1);
        if (rest == (object.is_negative ? ~std::uint64_t{0} >> (8 * bytes - 1) : 0)) break;
      }
      if (bytes == 8 && has_sign_bit != object.is_negative) bytes = 9;
    }
    put('\x8a', bytes, 1);
    append_number(out_, bits, std::min<std::size_t>(bytes, 8));
    if (bytes == 9) out_ += object.is_negative ? '\xff' : '\0';
  }
  void save_real(double number) {
    if (protocol_ == 0) {
      out_ += fmt::format("F{}\n", number);
      return;
    }
    std::uint64_t bits = 0;
    std::memcpy(&bits, &number, sizeof(bits));
    out_ += 'G';
    for (int shift = 56; shift >= 0; shift -= 8) out_ += static_cast<char>(bits >> shift);
  }

  void save_object(const Py& object) {
    switch (object.kind) {
      case Py::Kind::text:
        save_text(object.text);
        memoize(object);
        break;
      case Py::Kind::bytes:
        put('C', object.text.size(), 1);
        out_ += object.text;
        memoize(object);
        break;
      case Py::Kind::tuple:
        save_tuple(object);
        break;
      case Py::Kind::list:
        open_container(object, ']', 'l');
        save_items(object, 1, 'a', 'e');
        break;
      default:
        open_container(object, '}', 'd');
        save_items(object, 2, 's', 'u');
    }
  }
  void save_text(const std::string& text) {
    if (protocol_ == 0) {
      if (std::any_of(text.begin(), text.end(),
                      [](char c) { return c == '\n' || c == '\\' || (c & 0x80) != 0; })) {
        throw std::logic_error("this writer has no escapes for protocol 0");
      }
      out_ += "V" + text + "\n";
    } else if (protocol_ >= 4 && text.size() < 256) {
      put('\x8c', text.size(), 1);
      out_ += text;
    } else {
      put('X', text.size(), 4);
      out_ += text;
    }
  }
  void save_tuple(const Py& object) {
    const bool is_short = protocol_ >= 2 && object.items.size() <= 3;
    if (!is_short) out_ += '(';
    for (const PyRef& item : object.items) save(*item);
    constexpr std::string_view kShort = ")\x85\x86\x87";
    out_ += is_short ? kShort[object.items.size()] : 't';
    memoize(object);
  }
  void open_container(const Py& object, char empty, char from_mark) {
    if (protocol_ == 0) {
      out_ += {'(', from_mark};
    } else {
      out_ += empty;
    }
    memoize(object);
  }
  void save_items(const Py& object, std::size_t stride, char one, char many) {
    const bool whole = style_ == PickleStyle::torch;
    const std::size_t batch = stride * (whole ? object.items.size() : protocol_ == 0 ? 1 : 1000);
    for (std::size_t first = 0; first < object.items.size(); first += batch) {
      const std::size_t last = std::min(first + batch, object.items.size());
      const bool is_single = last - first == stride && !whole;
      if (!is_single) out_ += '(';
      for (std::size_t index = first; index < last; ++index) save(*object.items[index]);
      out_ += is_single ? one : many;
    }
  }

  int protocol_;
  PickleStyle style_;
  std::string out_;
  std::unordered_map<const Py*, std::size_t> memo_;
};

}  // namespace

PyRef py_none() { return make(Py::Kind::none); }
PyRef py_bool(bool value) {
  PyRef object = make(Py::Kind::boolean);
  object->is_negative = value;
  return object;
}
PyRef py_int(std::int64_t value) {
  PyRef object = make(Py::Kind::integer);
  object->is_negative = value < 0;
  object->magnitude =
      value < 0 ? ~static_cast<std::uint64_t>(value) + 1 : static_cast<std::uint64_t>(value);
  return object;
}
PyRef py_uint(std::uint64_t value) {
  PyRef object = make(Py::Kind::integer);
  object->magnitude = value;
  return object;
}
PyRef py_float(double value) {
  PyRef object = make(Py::Kind::real);
  object->number = value;
  return object;
}
PyRef py_text(std::string_view text) {
  PyRef object = make(Py::Kind::text);
  object->text = text;
  return object;
}
PyRef py_bytes(std::string_view bytes) {
  PyRef object = make(Py::Kind::bytes);
  object->text = bytes;
  return object;
}
PyRef py_list(std::vector<PyRef> items) {
  PyRef object = make(Py::Kind::list);
  object->items = std::move(items);
  return object;
}
PyRef py_tuple(std::vector<PyRef> items) {
  PyRef object = make(Py::Kind::tuple);
  object->items = std::move(items);
  return object;
}
PyRef py_dict(std::vector<std::pair<std::string, PyRef>> items) {
  PyRef object = make(Py::Kind::dict);
  for (auto& [key, value] : items) {
    object->items.push_back(py_text(key));
    object->items.push_back(std::move(value));
  }
  return object;
}

PyRef& at(const PyRef& dict, std::string_view key) {
  for (std::size_t index = 0; index + 1 < dict->items.size(); index += 2) {
    if (dict->items[index]->text == key) return dict->items[index + 1];
  }
  throw std::out_of_range(std::string(key));
}

void set(const PyRef& dict, std::string_view key, PyRef value) {
  for (std::size_t index = 0; index + 1 < dict->items.size(); index += 2) {
    if (dict->items[index]->text == key) {
      dict->items[index + 1] = std::move(value);
      return;
    }
  }
  dict->items.push_back(py_text(key));
  dict->items.push_back(std::move(value));
}

void erase(const PyRef& dict, std::string_view key) {
  for (std::size_t index = 0; index + 1 < dict->items.size(); index += 2) {
    if (dict->items[index]->text != key) continue;
    const auto first = dict->items.begin() + static_cast<std::ptrdiff_t>(index);
    dict->items.erase(first, first + 2);
    return;
  }
}

std::string pickled(const PyRef& object, int protocol, PickleStyle style) {
  return Writer(style == PickleStyle::torch ? 2 : protocol, style).run(*object);
}

std::string gzipped(std::string_view bytes) {
  z_stream stream{};
  if (deflateInit2(&stream, 9, Z_DEFLATED, 15 + 16, 8, Z_DEFAULT_STRATEGY) != Z_OK)
    throw std::bad_alloc();
  std::string out(deflateBound(&stream, bytes.size()) + 64, '\0');
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(bytes.data()));
  stream.avail_in = static_cast<uInt>(bytes.size());
  stream.next_out = reinterpret_cast<Bytef*>(out.data());
  stream.avail_out = static_cast<uInt>(out.size());
  deflate(&stream, Z_FINISH);
  out.resize(stream.total_out);
  deflateEnd(&stream);
  return out;
}

}  // namespace gpumemprof::test
