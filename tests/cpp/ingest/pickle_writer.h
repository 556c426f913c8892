// Python objects and a pickle writer for tests: every protocol, with the memo and batching behavior
// of Python's pickle module or of torch's C++ pickler. An object that is reached twice is written
// once and fetched from the memo.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace gpumemprof::test {

struct Py {
  enum class Kind : std::uint8_t { none, boolean, integer, real, text, bytes, list, tuple, dict };
  Kind kind = Kind::none;
  bool is_negative = false;     // of an integer; for a boolean, its value
  std::uint64_t magnitude = 0;  // of an integer
  double number = 0;
  std::string text;                        // text or bytes
  std::vector<std::shared_ptr<Py>> items;  // of a dict: key, value, key, value …
};
using PyRef = std::shared_ptr<Py>;

PyRef py_none();
PyRef py_bool(bool value);
PyRef py_int(std::int64_t value);
PyRef py_uint(std::uint64_t value);
PyRef py_float(double value);
PyRef py_text(std::string_view text);
PyRef py_bytes(std::string_view bytes);
PyRef py_list(std::vector<PyRef> items = {});
PyRef py_tuple(std::vector<PyRef> items);
PyRef py_dict(std::vector<std::pair<std::string, PyRef>> items = {});

// The value stored under key in a dict; the key must exist.
PyRef& at(const PyRef& dict, std::string_view key);
void set(const PyRef& dict, std::string_view key, PyRef value);
void erase(const PyRef& dict, std::string_view key);

enum class PickleStyle : std::uint8_t {
  python,  // batches of 1000 items; item by item in protocol 0
  torch,   // protocol 2, one MARK for a whole list or dict, integers of more than 32 bits in eight
           // bytes
};

std::string pickled(const PyRef& object, int protocol = 4, PickleStyle style = PickleStyle::python);
std::string gzipped(std::string_view bytes);

}  // namespace gpumemprof::test
