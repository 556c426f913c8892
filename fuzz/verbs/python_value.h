// PythonValue: the plain data of a pickle as a tree that can be changed and written again.
//
// It reads what Python's pickler writes for a snapshot with protocols 2 to 5, and only the fuzzer's
// own seeds, so it trusts what it reads.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <variant>
#include <vector>

namespace gpumemprof::fuzz {

struct PythonValue {
  struct None {};
  // Also beyond 64 bits: `magnitude` is shifted left by `shift` bits.
  struct Integer {
    std::uint64_t magnitude = 0;
    bool is_negative = false;
    std::uint32_t shift = 0;
  };
  using List = std::vector<PythonValue>;
  struct Tuple {
    std::vector<PythonValue> items;
  };
  using Dict = std::vector<std::pair<PythonValue, PythonValue>>;

  std::variant<None, bool, Integer, double, std::string, List, Tuple, Dict> data;

  static PythonValue of(std::uint64_t number) { return {Integer{number, false, 0}}; }
  static PythonValue of(std::string text) { return {std::move(text)}; }

  // The value under a text key, or nullptr.
  PythonValue* find(std::string_view key);
  List* list(std::string_view key);
};

PythonValue read_pickle(std::span<const std::uint8_t> bytes);
std::vector<std::uint8_t> write_pickle(const PythonValue& value);

}  // namespace gpumemprof::fuzz
